//! Where spans are kept: the folder of a store, or a server that has it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;

use super::server::{Server, is_address};
use crate::failure::Failure;

/// The token, unless one is given on the command line.
const TOKEN_VARIABLE: &str = "TRAZA_TOKEN";
/// Verbs that have verbs.
const GROUPS: [&str; 2] = ["dataset", "experiment"];

/// The place that a verb works on.
#[derive(Args, Debug)]
pub(super) struct PlaceArgs {
    /// The folder of the store, or the address of a server that has it.
    #[arg(value_name = "DIR")]
    place: PathBuf,
    /// Asks the server at this address, such as `http://127.0.0.1:4318`, and needs no folder.
    #[arg(long, value_name = "URL", help_heading = "Server")]
    url: Option<String>,
    /// The token that the server knows; without it that of the environment, `TRAZA_TOKEN`, which others cannot see.
    #[arg(long, value_name = "TOKEN", help_heading = "Server")]
    token: Option<String>,
    /// The certificates, in PEM, that vouch for a server at https://; by default those that the system trusts.
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    ca: Option<PathBuf>,
}

/// Where spans are kept.
pub(super) enum Place<'a> {
    Folder(&'a Path),
    Server(Server),
}

impl PlaceArgs {
    pub(super) fn place(&self) -> Result<Place<'_>, Failure> {
        let address = self.url.as_deref().or_else(|| {
            let text = self.place.to_str();
            text.filter(|text| is_address(text))
        });
        let Some(url) = address else {
            if self.token.is_some() || self.ca.is_some() {
                let what = "--token and --ca are for a server, and a folder was named";
                return Err(Failure::new(what).with_hint("--url names the server"));
            }
            return Ok(Place::Folder(&self.place));
        };
        let token = self.token.clone().or_else(token_of_environment);
        let token = token.filter(|token| !token.is_empty());
        Server::new(url, token.as_deref(), self.ca.as_deref()).map(Place::Server)
    }

    /// How the place is called.
    pub(super) fn name(&self) -> String {
        match &self.url {
            Some(url) => url.clone(),
            None => self.place.display().to_string(),
        }
    }
}

/// The token that the environment holds.
pub(super) fn token_of_environment() -> Option<String> {
    let token = std::env::var(TOKEN_VARIABLE).ok();
    token.filter(|token| !token.is_empty())
}

/// For a verb that needs the folder itself.
#[derive(Args, Debug)]
pub(super) struct NoServer {
    #[arg(long, value_name = "URL", hide = true)]
    url: Option<String>,
}

impl NoServer {
    /// Fails when one of the paths is the address of a server.
    pub(super) fn check(&self, paths: &[&Path]) -> Result<(), Failure> {
        let is_server = |path: &&Path| path.to_str().is_some_and(is_address);
        if self.url.is_none() && !paths.iter().any(is_server) {
            return Ok(());
        }
        let hint = "end the server, and name the folder of the store on its machine";
        let what = "this verb works on the files of a store, which a server does not hand out";
        Err(Failure::new(what).with_hint(hint))
    }
}

/// With `--url` the folder is left out. Its place is filled with the address, so that the arguments behind it keep theirs.
pub(crate) fn fill_folder(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let is = |at: usize, text: &str| args.get(at).is_some_and(|word| word == text);
    if !is(1, "trace") {
        return args;
    }
    let group = GROUPS.iter().any(|group| is(2, group));
    let at = if group { 4 } else { 3 };
    let mut words = args.iter().skip(at).take_while(|word| *word != "--");
    let mut url = None;
    while let Some(word) = words.next() {
        if word == "--url" {
            url = words.next().cloned();
        } else if let Some(given) = word.to_str().and_then(|word| word.strip_prefix("--url=")) {
            url = Some(given.into());
        }
    }
    if let Some(url) = url {
        args.insert(at, url);
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(line: &str) -> String {
        let words = fill_folder(line.split(' ').map(OsString::from));
        let words: Vec<String> = words
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        words.join(" ")
    }

    #[test]
    fn an_address_fills_the_place_of_the_folder_and_nothing_else_is_moved() {
        assert_eq!(
            filled("daybook trace get t1 --url http://a --json"),
            "daybook trace get http://a t1 --url http://a --json"
        );
        assert_eq!(
            filled("daybook trace dataset show --url=http://a 1"),
            "daybook trace dataset show http://a --url=http://a 1"
        );
        for same in [
            "daybook",
            "daybook trace",
            "daybook trace get dir t1",
            "daybook trace get dir -- --url http://a",
            "daybook trace get --url",
            "daybook verify --url http://a",
        ] {
            assert_eq!(filled(same), same);
        }
    }
}
