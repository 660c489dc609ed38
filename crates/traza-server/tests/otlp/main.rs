//! Export requests of OpenTelemetry arrive as they were sent, compressed or not.

#[cfg(test)]
mod encoding;
#[cfg(test)]
mod grpc;
#[cfg(test)]
mod shared_port;
