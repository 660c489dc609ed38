//! Keys: the private half is its owner's alone, and nothing is replaced by accident.

use crate::support::{Scratch, mode};

#[test]
fn a_new_key_is_its_owners_alone_and_both_halves_show_the_same_public_key() {
    let scratch = Scratch::new();
    let made = scratch
        .daybook(&["key", "new", "-o", "k.pem", "--json"])
        .expect(0)
        .json();
    assert_eq!(mode(&scratch.path("k.pem")), 0o600);
    assert_eq!(mode(&scratch.path("k.pub.pem")) & 0o600, 0o600);
    let private = scratch
        .daybook(&["key", "show", "k.pem", "--json"])
        .expect(0)
        .json();
    let public = scratch
        .daybook(&["key", "show", "k.pub.pem", "--json"])
        .expect(0)
        .json();
    assert_eq!(private, public);
    for member in ["id", "key", "pem"] {
        assert_eq!(made[member], public[member]);
    }
    let digits = public["key"].as_str().unwrap();
    let by_hex = scratch
        .daybook(&["key", "show", digits, "--json"])
        .expect(0)
        .json();
    assert_eq!(by_hex["id"], public["id"]);
    let text = scratch.daybook(&["key", "show", "k.pem"]).expect(0).out;
    assert!(text.contains(digits) && text.contains("BEGIN PUBLIC KEY"));
    assert!(!text.contains("PRIVATE"), "{text}");
}

#[test]
fn keys_are_never_the_same_and_never_replaced_unless_forced() {
    let scratch = Scratch::new();
    scratch.key();
    let first = scratch.read("k.pem");
    let ran = scratch.daybook(&["key", "new", "-o", "k.pem"]).expect(2);
    assert!(
        ran.err.contains("k.pem exists already") && ran.err.contains("--force"),
        "{}",
        ran.err
    );
    assert_eq!(scratch.read("k.pem"), first);
    scratch
        .daybook(&["key", "new", "-o", "k.pem", "--force"])
        .expect(0);
    assert_ne!(scratch.read("k.pem"), first);
    assert_eq!(mode(&scratch.path("k.pem")), 0o600);
    scratch.remove("k.pem");
    scratch.daybook(&["key", "new", "-o", "k.pem"]).expect(2);
    assert!(
        !scratch.has("k.pem"),
        "the public half stands, so nothing is written"
    );
}

#[test]
fn what_is_no_key_is_refused_with_a_hint() {
    let scratch = Scratch::new();
    scratch.write("notes.txt", b"no key");
    scratch.daybook(&["key", "show", "notes.txt"]).expect(2);
    scratch.daybook(&["key", "show", "missing.pem"]).expect(2);
    scratch.run(3, None).seal().unwrap();
    let ran = scratch
        .daybook(&["attest", "run.omni", "--key", "notes.txt"])
        .expect(2);
    assert!(ran.err.contains("daybook key new"), "{}", ran.err);
}
