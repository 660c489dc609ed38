//! The verbs.

use clap::{Parser, Subcommand};

use crate::failure::Outcome;
use crate::verb;

/// Keeps the evidence of AI work: records runs so that they can be replayed, questioned and proved.
///
/// What a file is, is told from its bytes, never from its name alone. A path that starts a rotated set
/// stands for the whole set.
#[derive(Debug, Parser)]
#[command(
    name = "daybook",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Demo(verb::demo::DemoArgs),
    #[command(hide = true)]
    DemoTrain(verb::demo::TrainArgs),
    Record(Box<verb::record::RecordArgs>),
    Ctl(verb::ctl::CtlArgs),
    Tune(Box<verb::tune::TuneArgs>),
    Verify(verb::verify::VerifyArgs),
    Inspect(verb::inspect::InspectArgs),
    Recover(verb::recover::RecoverArgs),
    Why(verb::why::WhyArgs),
    Effects(verb::why::EffectsArgs),
    QueryRun(verb::query_run::QueryRunArgs),
    Diff(verb::diff::DiffArgs),
    Replay(verb::replay::ReplayArgs),
    Export(verb::export::ExportArgs),
    Attest(verb::attest::AttestArgs),
    Study(verb::study::StudyArgs),
    Trace(verb::trace::TraceArgs),
    Trail(verb::trail::TrailArgs),
    Serve(Box<verb::serve::ServeArgs>),
    Mcp(verb::mcp::McpArgs),
    Migrate(verb::migrate::MigrateArgs),
    Key(verb::key::KeyArgs),
    Completions(verb::completions::CompletionsArgs),
}

impl Cli {
    pub(crate) fn run(self) -> Outcome {
        match self.verb {
            Verb::Demo(args) => verb::demo::run(&args),
            Verb::DemoTrain(args) => verb::demo::train(&args),
            Verb::Record(args) => verb::record::run(&args),
            Verb::Ctl(args) => verb::ctl::run(&args),
            Verb::Tune(args) => verb::tune::run(&args),
            Verb::Verify(args) => verb::verify::run(&args),
            Verb::Inspect(args) => verb::inspect::run(&args),
            Verb::Recover(args) => verb::recover::run(&args),
            Verb::Why(args) => verb::why::why(&args),
            Verb::Effects(args) => verb::why::effects(&args),
            Verb::QueryRun(args) => verb::query_run::run(&args),
            Verb::Diff(args) => verb::diff::run(&args),
            Verb::Replay(args) => verb::replay::run(&args),
            Verb::Export(args) => verb::export::run(&args),
            Verb::Attest(args) => verb::attest::run(&args),
            Verb::Study(args) => verb::study::run(&args),
            Verb::Trace(args) => verb::trace::run(&args),
            Verb::Trail(args) => verb::trail::run(&args),
            Verb::Serve(args) => verb::serve::run(&args),
            Verb::Mcp(args) => verb::mcp::run(&args),
            Verb::Migrate(args) => verb::migrate::run(&args),
            Verb::Key(args) => verb::key::run(&args),
            Verb::Completions(args) => verb::completions::run(&args),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_of_the_command_line_is_consistent() {
        crate::command().debug_assert();
    }

    #[test]
    fn every_verb_explains_itself_with_examples() {
        for verb in crate::command().get_subcommands() {
            let name = verb.get_name();
            assert!(verb.get_about().is_some(), "{name} has no description");
            assert!(verb.get_after_help().is_some(), "{name} has no examples");
        }
    }
}
