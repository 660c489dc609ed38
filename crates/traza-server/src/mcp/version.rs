//! Which versions of the protocol are served.

/// The versions that are served, the preferred one first.
pub const PROTOCOL_VERSIONS: [&str; 2] = ["2025-11-25", "2025-06-18"];

/// True for a version that is served: what the header `MCP-Protocol-Version` of a request may say.
pub fn is_served(version: &str) -> bool {
    PROTOCOL_VERSIONS.contains(&version)
}

/// The version to answer `initialize` with: the one that the client asks for if it is served, else the preferred one.
pub(super) fn negotiated(asked: Option<&str>) -> &'static str {
    let [preferred, ..] = PROTOCOL_VERSIONS;
    PROTOCOL_VERSIONS
        .into_iter()
        .find(|served| Some(*served) == asked)
        .unwrap_or(preferred)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_served_version_is_echoed_and_any_other_gets_the_preferred_one() {
        assert_eq!(negotiated(Some("2025-06-18")), "2025-06-18");
        for asked in [None, Some("2024-11-05"), Some("")] {
            assert_eq!(negotiated(asked), "2025-11-25");
        }
        assert!(is_served("2025-11-25") && is_served("2025-06-18"));
        assert!(!is_served("2024-11-05") && !is_served(""));
    }
}
