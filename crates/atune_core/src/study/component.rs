//! Which sampler and scheduler a study has, as it records them: in their state blobs, whose data are an
//! object of `options` and, once there is one, `state`.

use serde_json::{Value, json};

use super::{Result, StudyError};
use crate::trial::StateBlob;

/// The version of this encoding.
const VERSION: u32 = 1;

/// The blob of a component.
pub(super) fn blob(kind: &str, options: &Value, state: Option<Value>) -> StateBlob {
    let mut data = json!({ "options": options });
    if let (Some(state), Some(members)) = (state, data.as_object_mut()) {
        members.insert("state".to_owned(), state);
    }
    StateBlob {
        kind: kind.to_owned(),
        version: VERSION,
        data,
    }
}

/// The state in a component's blob.
pub(super) fn state(blob: Option<&StateBlob>) -> Option<&Value> {
    blob?.data.get("state")
}

/// The options in a component's blob.
pub(super) fn options(blob: &StateBlob) -> &Value {
    blob.data.get("options").unwrap_or(&Value::Null)
}

/// Refuses a component that is not the recorded one.
pub(super) fn check(
    what: &'static str,
    recorded: Option<&StateBlob>,
    kind: &str,
    given: &Value,
) -> Result<()> {
    let Some(recorded) = recorded else {
        return Ok(());
    };
    if recorded.kind == kind && recorded.version == VERSION && options(recorded) == given {
        return Ok(());
    }
    let version = match recorded.version {
        VERSION => String::new(),
        other => format!(" of version {other}"),
    };
    Err(StudyError::OtherComponent {
        what,
        recorded: format!(
            "{:?}{version} with options {}",
            recorded.kind,
            options(recorded)
        ),
        given: format!("{kind:?} with options {given}"),
    })
}
