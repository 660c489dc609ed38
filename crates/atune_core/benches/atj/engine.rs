//! Who keeps the trials: this project in two ways, and its peers.

use std::env;
use std::path::Path;
use std::process::Command;

use atune_core::storage::journal::Durability;
use clap::ValueEnum;

use crate::Result;
use crate::peers::Peers;
use crate::trial;

/// A store and the way it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    Managed,
    Raw,
    Optimizer,
    OptunaJournal,
    OptunaSqlite,
    RustunaJournal,
}

impl Engine {
    pub(crate) const PEERS: [Self; 4] = [
        Self::Optimizer,
        Self::OptunaJournal,
        Self::OptunaSqlite,
        Self::RustunaJournal,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Managed => "atune, managed trials",
            Self::Raw => "atune, raw trials",
            Self::Optimizer => "optimizer, journal",
            Self::OptunaJournal => "optuna, journal",
            Self::OptunaSqlite => "optuna, sqlite",
            Self::RustunaJournal => "rustuna, journal",
        }
    }

    /// Trials of each process; a tenth of them in a quick run.
    pub(crate) fn trials(self) -> u64 {
        match self {
            Self::Managed => 500,
            Self::OptunaSqlite => 50,
            _ => 200,
        }
    }

    /// The word by which the script knows it.
    fn script_name(self) -> Option<&'static str> {
        match self {
            Self::Managed | Self::Raw | Self::Optimizer => None,
            Self::OptunaJournal => Some("optuna-journal"),
            Self::OptunaSqlite => Some("optuna-sqlite"),
            Self::RustunaJournal => Some("rustuna-journal"),
        }
    }

    /// Creates a study without trials.
    pub(crate) fn create(self, peers: &Peers, path: &Path) -> Result<()> {
        match self.script_name() {
            Some(name) => peers.call("create", &[name, text(path)?]),
            // A file of this peer begins with its first trial.
            None if self == Self::Optimizer => Ok(()),
            None => trial::create(path, Durability::Full).map(drop),
        }
    }

    /// A process that runs trials.
    pub(crate) fn work(
        self,
        peers: &Peers,
        path: &Path,
        [trials, threads, worker]: [u64; 3],
    ) -> Result<Command> {
        if let Some(name) = self.script_name() {
            return peers.command("work", &[name, text(path)?, &trials.to_string()]);
        }
        let numbers = [trials, threads, worker].map(|n| n.to_string());
        let mut command = itself("work")?;
        command.arg(self.word()).arg(path).args(numbers);
        Ok(command)
    }

    /// A process that opens a study and says what that took.
    pub(crate) fn open(self, peers: &Peers, path: &Path) -> Result<Command> {
        if let Some(name) = self.script_name() {
            return peers.command("open", &[name, text(path)?]);
        }
        let mut command = itself("open")?;
        command.arg(self.word()).arg(path);
        Ok(command)
    }

    fn word(self) -> String {
        let value = self.to_possible_value();
        value.map_or(String::new(), |v| v.get_name().to_owned())
    }
}

/// This program in another role.
pub(crate) fn itself(role: &str) -> Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(role);
    Ok(command)
}

fn text(path: &Path) -> Result<&str> {
    Ok(path.to_str().ok_or("a path that is not UTF-8")?)
}
