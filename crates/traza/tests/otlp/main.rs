//! Export requests of OpenTelemetry become the spans that the mapping says, and what is wrong is named with its path.

#[cfg(test)]
mod both;
#[cfg(test)]
mod json;
#[cfg(test)]
mod protobuf;
#[cfg(test)]
mod response;
#[cfg(test)]
mod write;
