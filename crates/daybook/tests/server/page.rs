//! The web page.

use durable::{Fs as _, RealFs, publish};
use serde_json::json;

use crate::support::{Server, Setup};

fn with_ui(files: &[(&str, &[u8])]) -> Setup {
    let setup = Setup::new();
    for (name, bytes) in files {
        let path = setup.path(name);
        RealFs.create_dir_all(path.parent().unwrap()).unwrap();
        publish(&RealFs, &path, bytes).unwrap();
    }
    setup
}

#[test]
fn the_built_in_page_asks_this_server_only() {
    let server = Server::start();
    let answer = server.get("/").expect(200);
    assert_eq!(answer.field("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.field("cache-control"), Some("no-store"));
    let policy = answer.field("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    let page = answer.text();
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("innerHTML"));
    server.get("/favicon.ico").refused(404, "not found");
}

#[test]
fn a_folder_of_pages_is_served_as_it_is_at_the_moment() {
    let setup = with_ui(&[
        ("pages/index.html", b"<p>one"),
        ("pages/assets/app.js", b"1"),
        ("pages/a b.css", b"2"),
        ("pages/x.SVG", b"3"),
        ("pages/y", b"4"),
        ("secret.txt", b"secret"),
    ])
    .args(["--ui-dir", "pages"]);
    let (pages, secret) = (setup.path("pages"), setup.path("secret.txt"));
    std::os::unix::fs::symlink(&secret, pages.join("link.txt")).unwrap();
    let server = setup.start();
    for target in ["/", "/dashboard", "/dashboard/"] {
        let answer = server.get(target).expect(200);
        assert_eq!(
            answer.field("content-type"),
            Some("text/html; charset=utf-8")
        );
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.text(), "<p>one");
    }
    publish(&RealFs, &pages.join("index.html"), b"<p>two").unwrap();
    assert_eq!(server.get("/").text(), "<p>two");
    for (target, content_type) in [
        ("/assets/app.js", "text/javascript; charset=utf-8"),
        ("/a%20b.css", "text/css; charset=utf-8"),
        ("/x.SVG", "image/svg+xml"),
        ("/y", "application/octet-stream"),
    ] {
        let answer = server.get(target).expect(200);
        assert_eq!(answer.field("content-type"), Some(content_type), "{target}");
    }
    for target in [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/assets/../../secret.txt",
        "/link.txt",
        "/assets",
        "//etc/passwd",
        "/%00",
        "/assets%2f..%2fy",
        "/none.js",
    ] {
        server.get(target).refused(404, "not found");
    }
    server.get("/v1/index.html").refused(404, "not found");
    server.post("/", "").refused(404, "not found");
}

#[test]
fn without_a_page_in_the_folder_the_page_is_404_and_the_api_answers() {
    let server = Server::with(["--ui-dir", "none"]);
    for target in ["/", "/dashboard", "/dashboard/"] {
        let answer = server.get(target).refused(404, "no dashboard build found");
        assert!(
            answer.json()["next"]
                .as_str()
                .unwrap()
                .contains("npm run build")
        );
    }
    server.get("/v1/stats").expect(200);
    let span = json!([{"trace_id": "t", "span_id": "s", "name": "n", "start_ns": 1, "end_ns": 2, "service": "s"}]);
    server.ingest(&span);
}

#[test]
fn the_folder_of_pages_is_found_by_its_variable() {
    let setup = with_ui(&[("elsewhere/index.html", b"<p>here")]);
    let folder = setup.path("elsewhere").to_string_lossy().into_owned();
    let server = setup.variable("TRAZA_UI_DIR", &folder).start();
    assert_eq!(server.get("/").text(), "<p>here");
    let server = with_ui(&[("ui/dist/index.html", b"<p>built")]).start();
    assert_eq!(server.get("/").text(), "<p>built");
}
