//! Help, completions and usage.

use crate::support::Scratch;

#[test]
fn help_is_on_standard_output_with_examples_and_a_usage_error_is_2_on_standard_error() {
    let scratch = Scratch::new();
    let help = scratch.daybook(&["--help"]).expect(0);
    let verbs = [
        "record",
        "verify",
        "inspect",
        "recover",
        "export",
        "attest",
        "key",
        "completions",
    ];
    for verb in verbs {
        assert!(help.out.contains(verb), "{verb}");
        let help = scratch.daybook(&[verb, "--help"]).expect(0);
        assert!(help.out.contains("Examples:"), "{verb}: {}", help.out);
    }
    for wrong in [&["fly"][..], &["verify"], &["export", "x"], &[]] {
        let ran = scratch.daybook(wrong).expect(2);
        assert_eq!(ran.out, "");
        assert!(ran.err.contains("Usage"), "{wrong:?}: {}", ran.err);
    }
    assert!(
        scratch
            .daybook(&["--version"])
            .expect(0)
            .out
            .starts_with("daybook ")
    );
}

#[test]
fn completions_name_every_verb_for_every_shell() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = scratch.daybook(&["completions", shell]).expect(0).out;
        for verb in ["record", "inspect", "recover"] {
            assert!(script.contains(verb), "{shell}: {verb}");
        }
    }
}
