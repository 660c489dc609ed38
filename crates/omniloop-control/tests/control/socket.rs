//! The socket is its user's alone, and takes nobody's place.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use durable::{Fs as _, RealFs, publish};
use omniloop_control::{Control, HaltPolicy, Server, ServerError};

use crate::attended::Attended;

fn control() -> Arc<Control> {
    Arc::new(Control::new("run.omni", HaltPolicy::Halt))
}

#[test]
fn only_the_user_may_connect() {
    let run = Attended::new(HaltPolicy::Halt);
    let metadata = run.socket().metadata().unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_socket_that_nobody_listens_at_is_replaced_and_gone_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let server = Server::start(&path, control()).unwrap();
    let other = Server::start(&path, control());
    assert!(matches!(other, Err(ServerError::InUse { .. })), "{other:?}");
    server.close();
    assert!(!path.exists());
}

#[test]
fn a_file_in_the_place_of_the_socket_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    publish(&RealFs, &path, b"precious").unwrap();
    let started = Server::start(&path, control());
    assert!(matches!(started, Err(ServerError::NotASocket { .. })));
    let kept = durable::read_all(&RealFs, &path, 100).unwrap();
    assert_eq!(kept, b"precious");
}

#[test]
fn a_name_that_is_anothers_by_now_is_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let first = Server::start(&path, control()).unwrap();
    RealFs.remove_file(&path).unwrap();
    let second = Server::start(&path, control()).unwrap();
    first.close();
    assert!(path.exists());
    second.close();
    assert!(!path.exists());
}

#[test]
fn a_path_that_no_socket_can_have_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    for path in [
        dir.path().join("s".repeat(200)),
        dir.path().join("no/such/folder"),
    ] {
        let started = Server::start(&path, control());
        let error = started.err().unwrap();
        assert!(matches!(error, ServerError::Io { .. }));
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
    }
}
