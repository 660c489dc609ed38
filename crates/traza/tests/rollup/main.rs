//! What spans say about calls of models, and the sums over them.
//!
//! The facts and prices are tables of cases. The sidecars of a released peer are made again byte for byte from the spans
//! beside them, and then damaged in every byte.
// Each module is marked as a test, so that its helpers may unwrap like the tests themselves.

#[cfg(test)]
mod facts;
#[cfg(test)]
mod forged;
#[cfg(test)]
mod histogram;
#[cfg(test)]
mod pricing;
#[cfg(test)]
mod sidecars;
#[cfg(test)]
mod sums;

#[cfg(test)]
/// The values that were computed independently.
fn fnv_vectors() -> serde_json::Value {
    serde_json::from_str(include_str!("fnv.json")).unwrap()
}

#[cfg(test)]
/// A span with these attributes, a JSON object.
fn span_with(attributes: &str) -> traza::span::Span {
    let json = format!(
        r#"{{"trace_id":"t","span_id":"s","name":"n","service":"bot",
            "start_time_ns":10,"end_time_ns":30,"attributes":{attributes}}}"#
    );
    traza::span::Span::from_json(json.as_bytes()).unwrap()
}
