//! The command of a trial: its arguments and its environment.

use std::collections::BTreeMap;
use std::ffi::OsString;

use atune_core::space::ParamValue;

use super::grammar::is_name;
use super::space::{Space, variable, word_of};

/// Stands for the number of the trial.
const TRIAL: &str = "trial";

/// The arguments as they were given, with `{name}` where a value goes.
#[derive(Clone, Debug)]
pub(super) struct Template {
    args: Vec<Arg>,
}

#[derive(Clone, Debug)]
enum Arg {
    Plain(OsString),
    Pieces(Vec<Piece>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Param(String),
    Trial,
}

impl Template {
    /// # Errors
    /// Names a placeholder that no parameter has.
    pub(super) fn new(argv: &[OsString], space: &Space) -> Result<Self, String> {
        let args = argv.iter().map(|arg| match arg.to_str() {
            Some(text) if text.contains('{') => Ok(Arg::Pieces(pieces(text, space)?)),
            _ => Ok(Arg::Plain(arg.clone())),
        });
        let args = args.collect::<Result<_, String>>()?;
        Ok(Self { args })
    }

    /// The arguments of one trial. One that names a parameter which this trial does not have is left
    /// out whole: `--momentum={momentum}`.
    pub(super) fn argv(
        &self,
        trial: u64,
        space: &Space,
        params: &BTreeMap<String, ParamValue>,
    ) -> Vec<OsString> {
        let fill = |arg: &Arg| match arg {
            Arg::Plain(text) => Some(text.clone()),
            Arg::Pieces(pieces) => {
                let mut text = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Text(part) => text.push_str(part),
                        Piece::Trial => text.push_str(&trial.to_string()),
                        Piece::Param(name) => {
                            let declared = space.get(name)?;
                            text.push_str(&word_of(&declared.dist, params.get(name)?));
                        }
                    }
                }
                Some(text.into())
            }
        };
        self.args.iter().filter_map(fill).collect()
    }
}

/// The parameters as environment variables.
pub(super) fn variables(
    space: &Space,
    params: &BTreeMap<String, ParamValue>,
) -> Vec<(OsString, OsString)> {
    let of = |(name, value): (&String, &ParamValue)| {
        let word = word_of(&space.get(name)?.dist, value);
        // No variable can hold a NUL.
        Some((variable(name).into(), word.replace('\0', "\u{fffd}").into()))
    };
    params.iter().filter_map(of).collect()
}

/// `{name}` is a placeholder, `{{name}}` the text `{name}`; other braces are what they are, since
/// commands hold JSON, awk and the shell's `${name}`.
fn pieces(text: &str, space: &Space) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        plain.push_str(before);
        if before.ends_with('$') {
            plain.push('{');
            rest = after;
            continue;
        }
        if let Some((name, rest_after)) = after.strip_prefix('{').and_then(|a| a.split_once("}}"))
            && is_name(name)
        {
            plain.extend(["{", name, "}"]);
            rest = rest_after;
            continue;
        }
        match after.split_once('}') {
            Some((name, rest_after)) if is_name(name) => {
                let piece = if space.get(name).is_some() {
                    Piece::Param(name.to_owned())
                } else if name == TRIAL {
                    Piece::Trial
                } else {
                    return Err(unknown(name, space));
                };
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
                pieces.push(piece);
                rest = rest_after;
            }
            _ => {
                plain.push('{');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    pieces.push(Piece::Text(plain));
    pieces.retain(|piece| *piece != Piece::Text(String::new()));
    Ok(pieces)
}

fn unknown(name: &str, space: &Space) -> String {
    let names: Vec<&str> = space
        .params()
        .iter()
        .map(|p| p.name.as_str())
        .take(20)
        .collect();
    format!(
        "the command names {{{name}}}, and no parameter has that name; there are {}. For the text itself \
         write {{{{{name}}}}}",
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    )
}

#[cfg(test)]
mod tests {
    use atune_core::number::JsonF64;

    use super::super::grammar;
    use super::*;

    fn space() -> Space {
        let written = [
            "lr=float(0,1)",
            "opt=cat(adam,sgd)",
            "m=float(0,1) if opt=sgd",
            "big-n=int(1,9)",
        ];
        let written: Vec<_> = written.iter().map(|p| grammar::parse(p).unwrap()).collect();
        Space::read(None, &written).unwrap()
    }

    fn params() -> BTreeMap<String, ParamValue> {
        BTreeMap::from([
            ("lr".to_owned(), ParamValue::F64(JsonF64(1e-7))),
            ("opt".to_owned(), ParamValue::Cat(0)),
            ("big-n".to_owned(), ParamValue::I64(3)),
        ])
    }

    fn filled(args: &[&str]) -> Result<Vec<String>, String> {
        let argv: Vec<OsString> = args.iter().map(OsString::from).collect();
        let filled = Template::new(&argv, &space())?.argv(7, &space(), &params());
        Ok(filled
            .into_iter()
            .map(|arg| arg.into_string().unwrap())
            .collect())
    }

    #[test]
    fn placeholders_become_values_and_other_braces_stay() {
        let args = [
            "train",
            "--lr={lr}",
            "{opt}",
            "out/{trial}-{opt}",
            "{{lr}}",
            "{print $1}",
            "{\"a\":{}}",
            "${lr}",
            "{",
            "}",
        ];
        let expected = [
            "train",
            "--lr=1e-7",
            "adam",
            "out/7-adam",
            "{lr}",
            "{print $1}",
            "{\"a\":{}}",
            "${lr}",
            "{",
            "}",
        ];
        assert_eq!(filled(&args).unwrap(), expected);
    }

    #[test]
    fn an_argument_of_a_parameter_that_the_trial_does_not_have_is_left_out() {
        assert_eq!(
            filled(&["train", "--m={m}", "--lr={lr}"]).unwrap(),
            ["train", "--lr=1e-7"]
        );
    }

    #[test]
    fn a_placeholder_that_nothing_fills_is_an_error_that_names_what_there_is() {
        let told = filled(&["train", "{lrr}"]).unwrap_err();
        assert!(
            told.contains("{lrr}") && told.contains("lr, opt, m, big-n"),
            "{told}"
        );
    }

    #[test]
    fn parameters_are_environment_variables() {
        let variables = variables(&space(), &params());
        let expected = [
            ("DAYBOOK_PARAM_BIG_N", "3"),
            ("DAYBOOK_PARAM_LR", "1e-7"),
            ("DAYBOOK_PARAM_OPT", "adam"),
        ];
        assert_eq!(
            variables,
            expected.map(|(k, v)| (OsString::from(k), OsString::from(v)))
        );
    }
}
