//! Tenants on one server.
//!
//! Promise: for a credential that is bound to a tenant nothing of any other exists, and nothing it sends gets there.

use serde_json::{Value, json};

use crate::support::{Answer, Server, Setup, bearer, texts};

const TOKENS: &str = "admin:op,ro:reader,rw@acme:acme-w,ro@acme:acme-r,admin@acme:acme-a,rw@beta:beta-w,admin@beta:beta-a,ro@empty:empty-r";

fn server() -> Server {
    Setup::new()
        .tokens(TOKENS)
        .args(["--payload-threshold-bytes", "64"])
        .start()
}

struct As<'s>(&'s Server, &'static str);

impl As<'_> {
    fn get(&self, target: &str) -> Answer {
        self.0.ask("GET", target, &bearer(self.1), b"")
    }

    fn post(&self, target: &str, body: &Value) -> Answer {
        let body = body.to_string();
        self.0.ask("POST", target, &bearer(self.1), body.as_bytes())
    }

    fn ids(&self, target: &str) -> Vec<String> {
        let spans = self.get(target).expect(200).json()["spans"].clone();
        texts(spans.as_array().unwrap(), "span_id")
    }
}

fn span(id: &str, text: &str) -> Value {
    json!({"trace_id": "shared", "span_id": id, "name": "n", "start_ns": 10, "end_ns": 30, "service": "s", "status": "error",
           "attributes": {"session.id": "S", "gen_ai.request.model": "m", "text": text}})
}

/// Three tenants with the same trace.
fn fill(server: &Server) -> (String, String) {
    let (acme, beta) = ("a".repeat(100), "b".repeat(100));
    As(server, "acme-w")
        .post("/v1/spans", &json!([span("acme", &acme)]))
        .expect(200);
    As(server, "beta-w")
        .post("/v1/spans", &json!([span("beta", &beta)]))
        .expect(200);
    As(server, "op")
        .post("/v1/spans", &json!([span("default", "own words")]))
        .expect(200);
    let reference = |id: &str| {
        let spans = As(server, "op").get("/v1/traces/shared").expect(200).json();
        let spans = spans["spans"].as_array().unwrap().clone();
        let found = spans.iter().find(|span| span["span_id"] == id).unwrap();
        found["attributes"]["text"]["$payload"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    (reference("acme"), reference("beta"))
}

#[test]
fn every_read_of_a_bound_credential_is_of_its_own_tenant() {
    let server = server();
    let (own, foreign) = fill(&server);
    let acme = As(&server, "acme-r");
    for target in [
        "/v1/spans",
        "/v1/spans?tenant=acme",
        "/v1/traces/shared",
        "/v1/stats/slowest",
        "/v1/spans?session=S",
        "/v1/spans?sort=-duration",
    ] {
        assert_eq!(acme.ids(target), ["acme"], "{target}");
    }
    assert_eq!(
        As(&server, "op").ids("/v1/traces/shared"),
        ["default", "acme", "beta"]
    );
    assert_eq!(
        As(&server, "op").ids("/v1/traces/shared?tenant="),
        ["default"]
    );
    assert_eq!(As(&server, "op").ids("/v1/spans?tenant=beta"), ["beta"]);
    for (target, member, number) in [
        ("/v1/stats/failures", "total", 1),
        ("/v1/stats/failures?status=", "total", 0),
        ("/v1/stats/duration", "count", 1),
        ("/v1/sessions/S", "span_count", 1),
    ] {
        assert_eq!(
            acme.get(target).expect(200).json()[member],
            number,
            "{target}"
        );
    }
    let series = acme
        .get("/v1/stats/series?since=0&until=100&buckets=1")
        .expect(200)
        .json();
    assert_eq!(series["buckets"][0]["spans"], 1);
    let sessions = acme.get("/v1/sessions").expect(200).json();
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(sessions["sessions"][0]["tenant"], "acme");
    let rows = acme
        .get("/v1/stats/llm?group_by=session")
        .expect(200)
        .json();
    assert_eq!(texts(rows["rows"].as_array().unwrap(), "key"), ["acme/S"]);
    let export = acme.get("/v1/export").expect(200);
    assert_eq!(export.trailer("X-Traza-Export-Count"), "1");
    assert!(export.text().contains("\"$tenant\":\"acme\""));
    let tenants = acme.get("/v1/tenants").expect(200).json();
    assert_eq!(
        texts(tenants["tenants"].as_array().unwrap(), "tenant"),
        ["acme"]
    );
    assert_eq!(
        As(&server, "empty-r").get("/v1/tenants").json(),
        json!({"tenants": []})
    );
    let all = As(&server, "op").get("/v1/tenants").expect(200).json();
    assert_eq!(
        texts(all["tenants"].as_array().unwrap(), "tenant"),
        ["", "acme", "beta"]
    );
    assert_eq!(all["tenants"][1]["payload_bytes_approx"], 100);
    acme.get(&format!("/v1/payloads/{own}")).expect(200);
    acme.get(&format!("/v1/payloads/{foreign}"))
        .refused(404, "payload not found");
    As(&server, "op")
        .get(&format!("/v1/payloads/{foreign}"))
        .expect(200);
    As(&server, "empty-r")
        .get("/v1/traces/shared")
        .refused(404, "trace not found");
    As(&server, "empty-r")
        .get("/v1/sessions/S")
        .refused(404, "session not found");
}

#[test]
fn a_tail_and_a_cursor_show_nothing_of_another_tenant() {
    let server = server();
    fill(&server);
    let mut tail = server.connect();
    tail.send(format!("GET /v1/tail HTTP/1.1\r\n{}\r\n", bearer("acme-r")));
    assert_eq!(tail.head().unwrap().status, 200);
    let frame = String::from_utf8(tail.chunk().unwrap()).unwrap();
    assert!(
        frame.contains("\"acme\"") && !frame.contains("beta") && !frame.contains("default"),
        "{frame}"
    );
    let page = As(&server, "op").get("/v1/spans?limit=1").json();
    let cursor = page["next_cursor"].as_str().unwrap();
    // Replayed by somebody else, it is a place and no permission.
    assert_eq!(
        As(&server, "acme-r").ids(&format!("/v1/spans?cursor={cursor}")),
        ["acme"]
    );
    assert_eq!(
        As(&server, "beta-w").ids(&format!("/v1/spans?cursor={cursor}")),
        ["beta"]
    );
}

#[test]
fn another_tenant_cannot_be_named() {
    let server = server();
    fill(&server);
    let acme = As(&server, "acme-w");
    for target in [
        "/v1/spans",
        "/v1/traces/shared",
        "/v1/export",
        "/v1/tail",
        "/v1/sessions",
        "/v1/sessions/S",
        "/v1/stats/llm",
        "/v1/stats/duration",
        "/v1/stats/failures",
        "/v1/stats/slowest",
        "/v1/annotations",
        "/v1/datasets",
        "/v1/experiments",
    ] {
        for tenant in ["beta", ""] {
            let target = format!("{target}?tenant={tenant}");
            acme.get(&target)
                .refused(403, "this credential is bound to a different tenant");
        }
    }
    let mut other = span("x", "");
    other["$tenant"] = json!("beta");
    acme.post("/v1/spans", &json!([span("y", ""), other]))
        .refused(
            400,
            "span 1: tenant does not match the credential's binding",
        );
    acme.get("/v1/spans?name=y").expect(200);
    let export = |tenant: &str| {
        json!({"resourceSpans": [{
        "resource": {"attributes": [{"key": "traza.tenant", "value": {"stringValue": tenant}}]},
        "scopeSpans": [{"spans": [{"traceId": "ab", "spanId": "cd", "name": "o", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}]}]}]})
    };
    acme.post("/v1/traces", &export("beta"))
        .refused(400, "tenant does not match the credential's binding");
    acme.post("/v1/traces", &export("acme")).expect(200);
    assert_eq!(acme.ids("/v1/spans?name=o"), ["cd"]);
    acme.post(
        "/v1/annotations",
        &json!({"trace_id": "shared", "tenant": "beta", "name": "n", "value": 1}),
    )
    .refused(400, "tenant does not match the credential's binding");
    acme.post("/v1/datasets", &json!({"name": "d", "tenant": "beta"}))
        .refused(403, "this credential is bound to a different tenant");
}

#[test]
fn what_concerns_the_whole_store_is_for_unbound_credentials() {
    let server = server();
    for target in ["/v1/stats", "/v1/metrics", "/v1/metrics.json", "/v1/verify"] {
        As(&server, "acme-a").get(target).refused(403, "forbidden");
        As(&server, "reader").get(target).expect(200);
    }
    for target in [
        "/v1/flush",
        "/v1/checkpoint",
        "/v1/backups/x",
        "/v1/backups/x/release",
    ] {
        As(&server, "acme-a")
            .post(target, &Value::Null)
            .refused(403, "forbidden");
    }
    assert_eq!(
        As(&server, "op")
            .post("/v1/flush", &Value::Null)
            .expect(200)
            .json(),
        json!({"flushed": true})
    );
}

#[test]
fn annotations_datasets_and_experiments_of_another_tenant_are_absent() {
    let server = server();
    let (own, foreign) = fill(&server);
    let (acme, beta) = (As(&server, "acme-w"), As(&server, "beta-w"));
    acme.post(
        "/v1/annotations",
        &json!({"trace_id": "shared", "name": "good", "value": true}),
    )
    .expect(200);
    let own_notes = acme.get("/v1/annotations").expect(200).json();
    assert_eq!(own_notes["annotations"][0]["tenant"], "acme");
    assert_eq!(
        beta.get("/v1/annotations").json(),
        json!({"annotations": []})
    );
    assert_eq!(
        beta.get("/v1/traces/shared").json()["annotations"],
        json!([])
    );
    let dataset = acme
        .post("/v1/datasets", &json!({"name": "d"}))
        .expect(200)
        .json()["dataset_id"]
        .clone();
    let example = |reference: &str| json!({"examples": [{"example_id": "e", "input": {"$payload": reference, "bytes": 100}}]});
    let versions = format!("/v1/datasets/{dataset}/versions");
    acme.post(&versions, &example(&foreign))
        .refused(409, "is not reachable from this dataset's tenant");
    let absent = format!("sha256/{}", "0".repeat(64));
    acme.post(&versions, &example(&absent))
        .refused(409, "is not reachable from this dataset's tenant");
    let version = acme.post(&versions, &example(&own)).expect(200).json()["version_id"].clone();
    beta.get(&format!("/v1/datasets/{dataset}"))
        .refused(404, "no such dataset");
    beta.get(&format!("{versions}/{}", version.as_str().unwrap()))
        .refused(404, "no such dataset version");
    beta.post(&versions, &example(&foreign))
        .refused(400, &format!("no dataset {dataset}"));
    let experiment = json!({"dataset_id": dataset, "dataset_version": version});
    beta.post("/v1/experiments", &experiment)
        .refused(400, &format!("no dataset {dataset}"));
    let id = acme.post("/v1/experiments", &experiment).expect(200).json()["experiment_id"].clone();
    for suffix in ["", "/runs", "/scores", "/summary"] {
        beta.get(&format!("/v1/experiments/{id}{suffix}"))
            .refused(404, "no such experiment");
        acme.get(&format!("/v1/experiments/{id}{suffix}"))
            .expect(200);
    }
    beta.get(&format!("/v1/experiments/diff?base={id}&candidate={id}"))
        .refused(404, "no such experiment");
    beta.post(
        &format!("/v1/experiments/{id}/runs"),
        &json!({"example_id": "e", "trace_id": "t"}),
    )
    .refused(400, &format!("no experiment {id}"));
    beta.post(
        "/v1/annotations",
        &json!({"experiment_id": id, "example_id": "e", "name": "n", "value": 1}),
    )
    .refused(400, &format!("no experiment {id}"));
    assert_eq!(beta.get("/v1/datasets").json(), json!({"datasets": []}));
    assert_eq!(
        beta.get("/v1/experiments").json(),
        json!({"experiments": []})
    );
    let tombstone = format!("{versions}/{}/tombstone", version.as_str().unwrap());
    As(&server, "beta-a")
        .post(&tombstone, &json!({}))
        .refused(400, &format!("no dataset {dataset}"));
    As(&server, "acme-a")
        .post(&tombstone, &json!({"reason": "old"}))
        .expect(200);
}

#[test]
fn a_bound_admin_erases_its_own_and_sees_its_own_erasures_only() {
    let server = server();
    let (own, _) = fill(&server);
    let (acme, beta) = (As(&server, "acme-a"), As(&server, "beta-a"));
    let trace = json!({"subject": {"kind": "trace", "trace_id": "shared"}});
    let done = acme.post("/v1/erasures", &trace).expect(200).json();
    assert_eq!(done["subject"]["tenant"], "acme");
    assert_eq!(done["settle"]["spans_removed"], 1);
    acme.get("/v1/traces/shared").expect(404);
    assert_eq!(
        As(&server, "op").ids("/v1/traces/shared"),
        ["default", "beta"]
    );
    acme.post(
        "/v1/erasures",
        &json!({"subject": {"kind": "trace", "trace_id": "shared", "tenant": "beta"}}),
    )
    .refused(403, "this credential is bound to a different tenant");
    acme.post(
        "/v1/erasures",
        &json!({"subject": {"kind": "payload", "reference": own}}),
    )
    .refused(403, "payload subjects are store-global");
    assert_eq!(beta.get("/v1/erasures").json(), json!({"erasures": []}));
    let id = &done["id"];
    for target in [
        format!("/v1/erasures/{id}"),
        format!("/v1/erasures/{id}/verify"),
    ] {
        let text = format!("no erasure {id} is recorded in the tombstone log");
        beta.get(&target).refused(404, &text);
        acme.get(&target).expect(200);
    }
    As(&server, "op")
        .post(
            "/v1/erasures",
            &json!({"subject": {"kind": "tenant", "tenant": "beta"}}),
        )
        .expect(200);
    assert_eq!(beta.ids("/v1/spans"), [""; 0]);
    assert_eq!(As(&server, "op").ids("/v1/spans"), ["default"]);
}

#[test]
fn a_tenant_survives_a_crash_under_its_reserved_member() {
    let server = server();
    fill(&server);
    let server = server.crash_and_restart();
    let spans = As(&server, "acme-r")
        .get("/v1/traces/shared")
        .expect(200)
        .json();
    assert_eq!(spans["spans"][0]["$tenant"], "acme");
    let spans = As(&server, "op")
        .get("/v1/traces/shared?tenant=")
        .expect(200)
        .json();
    assert_eq!(spans["spans"][0].get("$tenant"), None);
}
