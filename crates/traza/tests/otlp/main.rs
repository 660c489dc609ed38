//! Export requests of OpenTelemetry become the spans that the mapping says, and what is wrong is named with its path.

#[cfg(test)]
mod json;
