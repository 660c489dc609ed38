//! Recording a loop that must not wait for the disk, and recording any command.

mod command;
mod group;
mod lines;
mod links;
mod payload;
mod queue;
mod schema;

pub use command::{
    CommandOptions, CommandOutcome, ExitStatus, TelemetryListener, record_command,
    record_command_fed, record_command_with,
};
pub use group::{CommandGroup, RunningGroup};
pub use links::{
    Links, RESOURCE_VARIABLE, RUN_HEAD, RUN_ID, RUN_PATH, RUN_TICK, SESSION_ID, STUDY_ID,
    TRACE_VARIABLE, TRIAL_NUMBER, new_run_id, start_of,
};
pub use payload::Payload;
pub use queue::{Closed, Policy, Recorded, Recorder, RecorderOptions};
pub(crate) use schema::SchemaDeriver;
