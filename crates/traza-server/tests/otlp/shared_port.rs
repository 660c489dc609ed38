//! One port for HTTP/1 and gRPC, plain and encrypted.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use durable::{Clock, Fs, ManualClock, RealFs, publish};
use durable_sim::SimFs;
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig};
use rcgen::CertifiedKey;
use traza::store::{Store, StoreOptions, Upkeep};
use traza_server::{Listeners, Running, ServerOptions, read_tls, start};

use super::grpc::{EXPECTED, export, found};

struct Served {
    store: Arc<Store>,
    running: Running,
    port: u16,
}

fn serve(certified: Option<&CertifiedKey<rcgen::KeyPair>>) -> Served {
    let fs: Arc<dyn Fs> = Arc::new(SimFs::new());
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(1_750_000_000_000_000_000, 1_000));
    let mut options = StoreOptions::default();
    options.upkeep = Upkeep::Inline;
    let store = Store::open_with(fs, Arc::clone(&clock), Path::new("/store"), options).unwrap();
    let store = Arc::new(store);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let tls = certified.map(|certified| {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("cert"), folder.path().join("key"));
        publish(&RealFs, &certificate, certified.cert.pem().as_bytes()).unwrap();
        let pem = certified.signing_key.serialize_pem();
        publish(&RealFs, &key, pem.as_bytes()).unwrap();
        read_tls(&certificate, &key).unwrap()
    });
    let listeners = Listeners {
        http: vec![listener],
        grpc: Vec::new(),
        tls,
    };
    let mut options = ServerOptions::default();
    options.socket_timeout = Duration::from_secs(5);
    let running = start(Arc::clone(&store), clock, options, listeners).unwrap();
    Served {
        store,
        running,
        port,
    }
}

/// Asks for the health over TLS, and offers these protocols. Answers what was agreed on and the status line.
fn healthz(
    port: u16,
    certified: &CertifiedKey<rcgen::KeyPair>,
    protocols: &[&[u8]],
) -> (Option<Vec<u8>>, String) {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certified.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
    let name = "localhost".try_into().unwrap();
    let client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut stream = rustls::StreamOwned::new(client, socket);
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let agreed = stream.conn.alpn_protocol().map(<[u8]>::to_vec);
    let status = answer.lines().next().unwrap_or_default().to_owned();
    (agreed, status)
}

#[test]
fn without_a_certificate_the_exporter_of_grpc_is_served_on_the_port_of_http() {
    let served = serve(None);
    export(&format!("http://127.0.0.1:{}", served.port), None, None);
    assert_eq!(found(&served.store), [EXPECTED]);
    served.running.stop();
}

#[test]
fn with_a_certificate_the_protocols_a_client_offers_decide_whether_it_is_grpc() {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let served = serve(Some(&certified));
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(certified.cert.pem()))
        .domain_name("localhost");
    let endpoint = format!("https://127.0.0.1:{}", served.port);
    export(&endpoint, None, Some(tls));
    assert_eq!(found(&served.store), [EXPECTED]);
    let ok = "HTTP/1.1 200 OK".to_owned();
    let http1 = Some(b"http/1.1".to_vec());
    for (offered, agreed) in [
        (vec![], None),
        (vec![&b"http/1.1"[..]], http1.clone()),
        (vec![&b"h2"[..], &b"http/1.1"[..]], http1),
    ] {
        let found = healthz(served.port, &certified, &offered);
        assert_eq!(found, (agreed, ok.clone()), "{offered:?}");
    }
    served.running.stop();
}

#[test]
fn what_does_not_begin_with_a_handshake_gets_an_alert_and_an_end() {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let served = serve(Some(&certified));
    // Plain text; a record of a handshake that is no first message; one whose message is longer than allowed.
    let mut long = Vec::new();
    for _ in 0..3 {
        long.extend([22, 3, 1, 0x40, 0]);
        // Each record goes on with the message that the first one begins: of type 1, 0xffff bytes long.
        long.extend(if long.len() == 5 {
            [1, 0, 0xff, 0xff]
        } else {
            [0; 4]
        });
        long.extend([0; 0x4000 - 4]);
    }
    for sent in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[22, 3, 1, 0, 1, 9], &long] {
        let mut socket = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        // The server may be gone before it has read everything.
        socket.write_all(sent).ok();
        let mut came = Vec::new();
        socket.read_to_end(&mut came).ok();
        // An alert is a record of type 21.
        assert!(came.is_empty() || came.first() == Some(&21), "{came:?}");
    }
    let (_, status) = healthz(served.port, &certified, &[]);
    assert_eq!(status, "HTTP/1.1 200 OK");
    served.running.stop();
}
