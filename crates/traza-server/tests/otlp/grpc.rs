//! The service on real sockets: the exporter of the Rust SDK, or the client made from the published schema, in front; a real
//! store or a sink that refuses behind.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use durable::{Fs, ManualClock};
use durable_sim::SimFs;
use opentelemetry::trace::{
    Event, Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{Array, InstrumentationScope, KeyValue, Value};
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig};
use opentelemetry_otlp::{
    Compression, RetryPolicy, SpanExporter, WithExportConfig as _, WithTonicConfig as _,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1 as proto;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use tokio::runtime::Runtime;
use tonic::codec::CompressionEncoding;
use tonic::transport::Channel;
use tonic_types::StatusExt as _;
use traza::span::Span;
use traza::store::{Store, StoreOptions, Upkeep};

use traza_server::grpc::{
    Caller, Code, Greeting, GrpcError, GrpcOptions, GrpcServer, Pem, Refusal, Sink,
};

const GRACE: Duration = Duration::from_secs(20);

/// A store on the simulated disk, which answers those with the right token.
struct StoreSink {
    store: Store,
    codes: Mutex<Vec<Code>>,
}

impl StoreSink {
    fn new() -> Arc<Self> {
        let fs: Arc<dyn Fs> = Arc::new(SimFs::new());
        let clock = Arc::new(ManualClock::new(1_750_000_000_000_000_000, 1_000));
        let mut options = StoreOptions::default();
        options.upkeep = Upkeep::Inline;
        Arc::new(Self {
            store: Store::open_with(fs, clock, Path::new("/store"), options).unwrap(),
            codes: Mutex::default(),
        })
    }
}

impl Sink for StoreSink {
    type Grant = ();

    fn admit(&self, caller: &Caller<'_>) -> Result<(), Refusal> {
        assert!(caller.peer.unwrap().ip().is_loopback());
        match caller.token {
            Some("s3cret") => Ok(()),
            Some(_) => Err(Refusal::Forbidden("not yours".to_owned())),
            None => Err(Refusal::Unauthenticated("no token".to_owned())),
        }
    }

    fn store(&self, (): (), spans: Vec<Span>) -> Result<u64, Refusal> {
        let ingested = self.store.ingest(spans);
        let ingested = ingested.map_err(|error| Refusal::Invalid(error.to_string()))?;
        Ok(ingested.suppressed as u64)
    }

    fn answered(&self, code: Code) {
        self.codes.lock().unwrap().push(code);
    }
}

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    (listener, endpoint)
}

fn start<S: Sink>(sink: &Arc<S>, options: &GrpcOptions) -> (GrpcServer, String) {
    let (listener, endpoint) = listener();
    let server = GrpcServer::start(Arc::clone(sink), options, vec![listener]).unwrap();
    (server, endpoint)
}

fn time(ns: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(ns)
}

fn context(trace: u128, span: u64) -> SpanContext {
    let (trace, span) = (TraceId::from(trace), SpanId::from(span));
    SpanContext::new(
        trace,
        span,
        TraceFlags::SAMPLED,
        false,
        TraceState::default(),
    )
}

fn span_data() -> SpanData {
    let strings = vec!["a".into(), "b".into()];
    let scope = InstrumentationScope::builder("scope")
        .with_attributes([KeyValue::new("lib", "x"), KeyValue::new("beneath", 1)]);
    SpanData {
        span_context: context(0xAB << 120 | 7, 0xCD),
        parent_span_id: SpanId::from(0xEF),
        parent_span_is_remote: true,
        span_kind: SpanKind::Client,
        name: "chat größer".into(),
        start_time: time(1_750_000_000_000_000_001),
        end_time: time(1_750_000_000_000_000_009),
        attributes: vec![
            KeyValue::new("text", "héllo"),
            KeyValue::new("int", i64::MIN),
            KeyValue::new("float", 0.25),
            KeyValue::new("truth", true),
            KeyValue::new("list", Value::Array(Array::String(strings))),
            KeyValue::new("beneath", "above"),
        ],
        dropped_attributes_count: 1,
        events: {
            let mut events = SpanEvents::default();
            let attributes = vec![KeyValue::new("n", 5)];
            events.events = vec![Event::new(
                "token",
                time(1_750_000_000_000_000_005),
                attributes,
                0,
            )];
            events
        },
        links: {
            let mut links = SpanLinks::default();
            links.links = vec![Link::new(
                context(1, 2),
                vec![KeyValue::new("why", "retry")],
                0,
            )];
            links
        },
        status: Status::error("no"),
        instrumentation_scope: scope.build(),
    }
}

pub(crate) const EXPECTED: &str = r#"{"trace_id":"ab000000000000000000000000000007","span_id":"00000000000000cd","parent_span_id":"00000000000000ef","name":"chat größer","start_time_ns":1750000000000000001,"end_time_ns":1750000000000000009,"status":"error","service":"bot","attributes":{"beneath":"above","float":0.25,"int":-9223372036854775808,"lib":"x","list":["a","b"],"text":"héllo","truth":true},"events":[{"name":"token","timestamp_ns":1750000000000000005,"attributes":{"n":5}}],"links":[{"trace_id":"00000000000000000000000000000001","span_id":"0000000000000002","attributes":{"why":"retry"}}]}"#;

/// Exports the span with the SDK, with a token and this compression, and maybe over TLS.
pub(crate) fn export(
    endpoint: &str,
    compression: Option<Compression>,
    tls: Option<ClientTlsConfig>,
) {
    let runtime = Runtime::new().unwrap();
    let _inside = runtime.enter();
    let mut metadata = tonic::metadata::MetadataMap::new();
    metadata.insert("authorization", "Bearer s3cret".parse().unwrap());
    let mut builder = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .with_metadata(metadata)
        .with_retry_policy(RetryPolicy::disabled());
    if let Some(compression) = compression {
        builder = builder.with_compression(compression);
    }
    if let Some(tls) = tls {
        builder = builder.with_tls_config(tls);
    }
    let mut exporter = builder.build().unwrap();
    exporter.set_resource(&Resource::builder_empty().with_service_name("bot").build());
    runtime
        .block_on(exporter.export(vec![span_data()]))
        .unwrap();
}

pub(crate) fn found(store: &Store) -> Vec<String> {
    let spans = store
        .get_trace("ab000000000000000000000000000007", None)
        .unwrap();
    spans.iter().map(|span| span.to_json()).collect()
}

#[test]
fn what_the_sdk_exports_is_found_again_field_by_field_whatever_the_compression() {
    for compression in [None, Some(Compression::Gzip), Some(Compression::Zstd)] {
        let sink = StoreSink::new();
        let (server, endpoint) = start(&sink, &GrpcOptions::default());
        export(&endpoint, compression, None);
        assert_eq!(found(&sink.store), [EXPECTED]);
        assert_eq!(*sink.codes.lock().unwrap(), [Code::Ok]);
        assert!(server.shutdown(GRACE));
    }
}

#[test]
fn a_connection_that_somebody_else_has_begun_to_read_is_served() {
    for read_len in [0, 3, 24] {
        let sink = StoreSink::new();
        let server = GrpcServer::start(Arc::clone(&sink), &GrpcOptions::default(), vec![]).unwrap();
        let (listener, endpoint) = listener();
        let client = std::thread::spawn(move || export(&endpoint, None, None));
        let (mut stream, _) = listener.accept().unwrap();
        let mut preface = vec![0; read_len];
        stream.read_exact(&mut preface).unwrap();
        assert!(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".starts_with(&preface));
        server.adopt(stream, Greeting::Plain(preface)).unwrap();
        client.join().unwrap();
        assert_eq!(found(&sink.store), [EXPECTED]);
        assert!(server.shutdown(GRACE));
    }
}

#[test]
fn an_encrypted_connection_is_not_taken_without_a_certificate() {
    let sink = StoreSink::new();
    let server = GrpcServer::start(Arc::clone(&sink), &GrpcOptions::default(), vec![]).unwrap();
    let (listener, _) = listener();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    let refused = server.adopt(stream, Greeting::Tls(vec![22]));
    assert!(matches!(refused, Err(GrpcError::NoCertificate)));
    assert!(server.shutdown(GRACE));
}

#[test]
fn with_a_certificate_the_service_speaks_tls() {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let sink = StoreSink::new();
    let mut options = GrpcOptions::default();
    options.tls = Some(Pem {
        certificate: certified.cert.pem().into_bytes(),
        key: certified.signing_key.serialize_pem().into_bytes(),
    });
    let (server, endpoint) = start(&sink, &options);
    let authority = Certificate::from_pem(certified.cert.pem());
    let tls = ClientTlsConfig::new()
        .ca_certificate(authority)
        .domain_name("localhost");
    export(&endpoint.replace("http:", "https:"), None, Some(tls));
    assert_eq!(found(&sink.store), [EXPECTED]);
    assert!(server.shutdown(GRACE));
    options.tls = Some(Pem {
        certificate: b"no certificate".to_vec(),
        key: Vec::new(),
    });
    assert!(GrpcServer::start(sink, &options, vec![]).is_err());
}

/// Answers every call as it is told, when it is told.
struct Scripted {
    entered: Mutex<Sender<usize>>,
    answers: Mutex<Receiver<Result<u64, Refusal>>>,
}

impl Sink for Scripted {
    type Grant = ();

    fn admit(&self, _: &Caller<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn store(&self, (): (), spans: Vec<Span>) -> Result<u64, Refusal> {
        self.entered.lock().unwrap().send(spans.len()).unwrap();
        self.answers.lock().unwrap().recv().unwrap()
    }

    fn answered(&self, _: Code) {}
}

struct Script {
    sink: Arc<Scripted>,
    entered: Receiver<usize>,
    answers: Sender<Result<u64, Refusal>>,
}

impl Script {
    fn new() -> Self {
        let (enter, entered) = channel();
        let (answers, answer) = channel();
        let sink = Arc::new(Scripted {
            entered: Mutex::new(enter),
            answers: Mutex::new(answer),
        });
        Self {
            sink,
            entered,
            answers,
        }
    }
}

fn request(span: proto::Span) -> ExportTraceServiceRequest {
    let scope_spans = vec![proto::ScopeSpans {
        spans: vec![span],
        ..proto::ScopeSpans::default()
    }];
    let resource_spans = vec![proto::ResourceSpans {
        scope_spans,
        ..proto::ResourceSpans::default()
    }];
    ExportTraceServiceRequest { resource_spans }
}

fn valid() -> proto::Span {
    proto::Span {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        start_time_unix_nano: 1,
        end_time_unix_nano: 2,
        ..proto::Span::default()
    }
}

struct Client {
    runtime: Runtime,
    client: TraceServiceClient<Channel>,
}

impl Client {
    fn new(endpoint: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let channel = Channel::from_shared(endpoint.to_owned()).unwrap();
        let channel = runtime.block_on(async { channel.connect_lazy() });
        Self {
            runtime,
            client: TraceServiceClient::new(channel),
        }
    }

    fn send(&self, span: proto::Span) -> Result<ExportTraceServiceResponse, tonic::Status> {
        let mut client = self.client.clone();
        let answer = self.runtime.block_on(client.export(request(span)))?;
        Ok(answer.into_inner())
    }
}

#[test]
fn each_refusal_has_its_code_and_only_what_may_be_sent_again_says_when() {
    let script = Script::new();
    let (server, endpoint) = start(&script.sink, &GrpcOptions::default());
    let client = Client::new(&endpoint);
    let retry_after = Duration::from_millis(1500);
    let text = || "because".to_owned();
    for (refusal, code, is_later) in [
        (
            Refusal::Unauthenticated(text()),
            Code::Unauthenticated,
            false,
        ),
        (Refusal::Forbidden(text()), Code::PermissionDenied, false),
        (Refusal::Invalid(text()), Code::InvalidArgument, false),
        (Refusal::Failed(text()), Code::Internal, false),
        (
            Refusal::Unavailable {
                message: text(),
                retry_after,
            },
            Code::Unavailable,
            true,
        ),
        (
            Refusal::Exhausted {
                message: text(),
                retry_after,
            },
            Code::ResourceExhausted,
            true,
        ),
    ] {
        script.answers.send(Err(refusal)).unwrap();
        let status = client.send(valid()).unwrap_err();
        assert_eq!((status.code(), status.message()), (code, "because"));
        let delay = status
            .get_details_retry_info()
            .and_then(|info| info.retry_delay);
        assert_eq!(delay, is_later.then_some(retry_after), "{code:?}");
    }
    assert!(server.shutdown(GRACE));
}

#[test]
fn spans_that_are_being_erased_are_a_partial_success() {
    let script = Script::new();
    let (server, endpoint) = start(&script.sink, &GrpcOptions::default());
    let client = Client::new(&endpoint);
    script.answers.send(Ok(0)).unwrap();
    assert_eq!(client.send(valid()).unwrap().partial_success, None);
    script.answers.send(Ok(3)).unwrap();
    let partial = client.send(valid()).unwrap().partial_success.unwrap();
    assert_eq!(partial.rejected_spans, 3);
    assert_eq!(partial.error_message, traza::otlp::SUPPRESSED_MESSAGE);
    assert!(server.shutdown(GRACE));
}

#[test]
fn callers_without_a_token_or_with_another_are_refused_before_their_message_is_read() {
    let sink = StoreSink::new();
    let (server, endpoint) = start(&sink, &GrpcOptions::default());
    let mut client = Client::new(&endpoint);
    assert_eq!(
        client.send(proto::Span::default()).unwrap_err().code(),
        Code::Unauthenticated
    );
    for (value, code) in [
        ("Bearer wrong", Code::PermissionDenied),
        ("Basic s3cret", Code::Unauthenticated),
        ("bearer  s3cret", Code::Ok),
    ] {
        let mut request = tonic::Request::new(request(valid()));
        request
            .metadata_mut()
            .insert("authorization", value.parse().unwrap());
        let answer = client.runtime.block_on(client.client.export(request));
        assert_eq!(
            answer.map_or_else(|status| status.code(), |_| Code::Ok),
            code,
            "{value}"
        );
    }
    let codes = [
        Code::Unauthenticated,
        Code::PermissionDenied,
        Code::Unauthenticated,
        Code::Ok,
    ];
    assert_eq!(*sink.codes.lock().unwrap(), codes);
    assert!(server.shutdown(GRACE));
}

#[test]
fn a_message_that_is_wrong_or_too_long_is_an_invalid_argument_and_not_to_be_sent_again() {
    let script = Script::new();
    let mut options = GrpcOptions::default();
    options.message_len_max = 1000;
    let (server, endpoint) = start(&script.sink, &options);
    let mut client = Client::new(&endpoint);
    let nameless = proto::Span {
        trace_id: Vec::new(),
        ..valid()
    };
    let status = client.send(nameless).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(
        status
            .message()
            .starts_with("protobuf decode error: missing field"),
        "{status}"
    );
    for encoding in [
        None,
        Some(CompressionEncoding::Gzip),
        Some(CompressionEncoding::Zstd),
    ] {
        if let Some(encoding) = encoding {
            client.client = client.client.send_compressed(encoding);
        }
        let long = proto::Span {
            name: "a".repeat(1000),
            ..valid()
        };
        let status = client.send(long).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains("1000 bytes"), "{status}");
    }
    assert!(script.entered.try_recv().is_err());
    assert!(server.shutdown(GRACE));
}

#[test]
fn more_calls_than_allowed_are_told_to_come_back_and_shutdown_waits_for_the_others() {
    let script = Script::new();
    let mut options = GrpcOptions::default();
    options.calls_max = 1;
    let (server, endpoint) = start(&script.sink, &options);
    let first = {
        let endpoint = endpoint.clone();
        std::thread::spawn(move || Client::new(&endpoint).send(valid()))
    };
    assert_eq!(script.entered.recv().unwrap(), 1);
    let status = Client::new(&endpoint).send(valid()).unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.get_details_retry_info().is_some());
    let shutdown = std::thread::spawn(move || server.shutdown(GRACE));
    script.answers.send(Ok(0)).unwrap();
    first.join().unwrap().unwrap();
    assert!(shutdown.join().unwrap());
    assert!(TcpStream::connect(endpoint.trim_start_matches("http://")).is_err());
}

#[test]
fn shutdown_does_not_wait_for_longer_than_it_may() {
    let script = Script::new();
    let (server, endpoint) = start(&script.sink, &GrpcOptions::default());
    let call = std::thread::spawn(move || Client::new(&endpoint).send(valid()));
    assert_eq!(script.entered.recv().unwrap(), 1);
    assert!(!server.shutdown(Duration::from_millis(10)));
    drop(script.answers);
    assert!(call.join().unwrap().is_err());
}

#[test]
fn more_connections_than_allowed_are_closed_at_once_and_counted() {
    let sink = StoreSink::new();
    let mut options = GrpcOptions::default();
    options.connections_max = 1;
    let (server, endpoint) = start(&sink, &options);
    let address = endpoint.trim_start_matches("http://");
    // The server says first what it allows: by then the connection is open.
    let mut first = TcpStream::connect(address).unwrap();
    std::io::Write::write_all(
        &mut first,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    )
    .unwrap();
    first.read_exact(&mut [0; 9]).unwrap();
    let mut second = TcpStream::connect(address).unwrap();
    assert!(matches!(second.read(&mut [0]), Ok(0) | Err(_)));
    assert_eq!(server.connections_refused(), 1);
    drop(first);
    assert!(server.shutdown(GRACE));
}
