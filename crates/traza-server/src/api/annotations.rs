//! `/v1/annotations`: judgments of traces, spans, sessions and examples.

use traza::logs::annotation::Annotation;
use traza::store::AnnotationFilter;

use super::{Answered, Call, json};
use crate::http::Refusal;
use crate::render::{annotation, list, object};

pub(crate) fn annotate<'a>(call: &Call<'a>) -> Answered<'a> {
    // Bounded first: what is stored is read without a bound.
    drop(call.object()?);
    let mut new = Annotation::from_json(call.body())
        .map_err(|error| Refusal::bad_request(error.to_string()))?;
    if let Some(bound) = &call.caller().tenant {
        if new.tenant.is_empty() {
            new.tenant.clone_from(bound);
        } else if new.tenant != *bound {
            let text = "tenant does not match the credential's binding";
            return Err(Refusal::bad_request(text));
        }
    }
    if let Some(id) = new.experiment_id {
        let store = &call.server.store;
        let is_foreign = store.read_evals(|state| {
            let found = state.experiment(id);
            found.is_some_and(|experiment| !call.caller().sees(&experiment.tenant))
        });
        if is_foreign {
            return Err(Refusal::bad_request(format!("no experiment {id}")));
        }
    }
    if new.timestamp_ns == 0 {
        new.timestamp_ns = call.now_unix_ns();
    }
    // What is being erased is acknowledged too, and dropped.
    call.server.store.annotate(new)?;
    json(&object([("recorded", true.into())]))
}

pub(crate) fn annotations<'a>(call: &Call<'a>) -> Answered<'a> {
    let parameters = call.parameters()?;
    let mut filter = AnnotationFilter::default();
    filter.trace_id = parameters.owned("trace_id");
    filter.span_id = parameters.owned("span_id");
    filter.session_id = parameters.owned("session_id");
    filter.experiment_id = parameters.number("experiment_id")?;
    filter.example_id = parameters.owned("example_id");
    filter.name = parameters.owned("name");
    filter.source_prefix = parameters.owned("source");
    filter.since = parameters.moment("since")?;
    filter.until = parameters.moment("until")?;
    filter.limit = parameters.limit()?;
    filter.tenant = call.caller().tenant_of_read(parameters.owned("tenant"))?;
    let found = call.server.store.annotations(&filter);
    json(&object([("annotations", list(&found, annotation))]))
}
