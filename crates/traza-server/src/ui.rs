//! The web pages: files of a folder, or the page that is built in.

use std::path::{Component, Path, PathBuf};

use durable::{RealFs, read_all};
use traza::json::Value;

use crate::http::{Head, Refusal, Response};
use crate::parameters::decode;
use crate::server::Server;

/// The longest file that is served, in bytes.
const FILE_LEN_MAX: u64 = 32 << 20;
const HTML: &str = "text/html; charset=utf-8";
/// The page of a server that was given no other.
const BUILT_IN: &str = include_str!("page.html");
/// What spans say is data: the page asks this server only, and runs nothing but itself.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Answers what is no question to the API; nobody needs a token for it.
pub(crate) fn answer(server: &Server, head: &Head) -> Option<Response> {
    let path = head.path.as_str();
    let is_page = matches!(path, "/" | "/dashboard" | "/dashboard/");
    let is_api = path == "/v1" || path.starts_with("/v1/");
    if head.method != "GET" || is_api {
        return None;
    }
    let Some(folder) = &server.options.ui_dir else {
        return is_page.then(|| {
            let mut response = page(HTML, BUILT_IN.as_bytes().to_vec());
            response
                .fields
                .push(("Content-Security-Policy", POLICY.to_owned()));
            response
        });
    };
    if is_page {
        let index = folder.join("index.html");
        return Some(match read_all(&RealFs, &index, FILE_LEN_MAX) {
            Ok(bytes) => page(HTML, bytes),
            Err(_) => Refusal::not_found("no dashboard build found")
                .with(
                    "next",
                    Value::from("put index.html there, or build it with npm run build, or leave --ui-dir out"),
                )
                .into(),
        });
    }
    let file = inside(folder, &decode(path))?;
    let bytes = read_all(&RealFs, &file, FILE_LEN_MAX).ok()?;
    Some(page(content_type(&file), bytes))
}

fn page(content_type: &'static str, body: Vec<u8>) -> Response {
    let mut response = Response::new(200, content_type, body);
    response.fields = vec![
        ("Cache-Control", "no-store".to_owned()),
        ("X-Content-Type-Options", "nosniff".to_owned()),
    ];
    response
}

/// The file that a path names, if it is in the folder, whatever links lead out of it.
fn inside(folder: &Path, path: &str) -> Option<PathBuf> {
    let relative = Path::new(path.trim_start_matches('/'));
    let is_plain = |component: Component<'_>| matches!(component, Component::Normal(_));
    if path.contains('\0')
        || relative.as_os_str().is_empty()
        || !relative.components().all(is_plain)
    {
        return None;
    }
    let root = folder.canonicalize().ok()?;
    let file = root.join(relative).canonicalize().ok()?;
    (file.is_file() && file.starts_with(&root)).then_some(file)
}

fn content_type(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension.unwrap_or_default().to_ascii_lowercase().as_str() {
        "html" => HTML,
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json; charset=utf-8",
        "txt" => "text/plain; charset=utf-8",
        "svg" => "image/svg+xml",
        "woff2" => "font/woff2",
        "woff" => "font/woff",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        _ => "application/octet-stream",
    }
}
