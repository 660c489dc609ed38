//! What the operator has allowed.

/// The smallest limit of results: below it not even the fields that an output schema requires would fit.
pub const RESULT_LEN_MIN: usize = 1_024;

/// What the endpoint may do, and how much it may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// `--mcp-annotations`: callers who may write can record annotations.
    pub annotations: bool,
    /// `--mcp-promote`: callers who may write can make datasets.
    pub promote: bool,
    /// `--mcp-max-result-bytes`: the longest result as JSON, in bytes. At least [`RESULT_LEN_MIN`].
    pub result_len_max: usize,
    /// `--mcp-max-payload-bytes`: the longest piece of an offloaded payload, in bytes.
    pub payload_len_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            annotations: false,
            promote: false,
            result_len_max: 32_768,
            payload_len_max: 262_144,
        }
    }
}

/// A limit of results that is too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "--mcp-max-result-bytes {found} is below {RESULT_LEN_MIN}: a result that small cannot hold what its output schema \
     requires"
)]
pub struct ResultLimitTooSmall {
    /// What was asked for.
    pub found: usize,
}

impl Options {
    /// Checks the limits before the server starts.
    ///
    /// # Errors
    /// [`ResultLimitTooSmall`].
    pub fn check(&self) -> Result<(), ResultLimitTooSmall> {
        if self.result_len_max < RESULT_LEN_MIN {
            return Err(ResultLimitTooSmall {
                found: self.result_len_max,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_result_limit_is_1024_and_a_smaller_one_names_its_flag() {
        let with = |result_len_max| Options {
            result_len_max,
            ..Options::default()
        };
        assert_eq!(with(1_024).check(), Ok(()));
        let text = with(1_023).check().unwrap_err().to_string();
        assert!(text.contains("--mcp-max-result-bytes") && text.contains("output schema"));
    }
}
