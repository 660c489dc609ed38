//! Reading a Parquet file back.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use durable::FsFile;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

/// Rows that are read at a time.
const READ_ROWS: usize = 1024;

/// Reads every column of every row, and counts the rows.
pub(crate) fn count_rows(file: Box<dyn FsFile>) -> Result<u64, ParquetError> {
    let len = file.len()?;
    let file = Source {
        file: Arc::from(file),
        len,
    };
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)?
        .with_batch_size(READ_ROWS)
        .build()?;
    let mut rows = 0;
    for batch in reader {
        rows += batch?.num_rows() as u64;
    }
    Ok(rows)
}

/// A file as the reader wants it.
struct Source {
    file: Arc<dyn FsFile>,
    len: u64,
}

/// A place in it.
struct At {
    file: Arc<dyn FsFile>,
    offset: u64,
}

impl Read for At {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read_at(self.offset, buffer)?;
        self.offset += len as u64;
        Ok(len)
    }
}

impl Length for Source {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for Source {
    type T = At;

    fn get_read(&self, start: u64) -> Result<At, ParquetError> {
        Ok(At {
            file: Arc::clone(&self.file),
            offset: start,
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let behind = self.len.saturating_sub(start);
        if length as u64 > behind {
            return Err(ParquetError::EOF(format!(
                "{length} bytes are wanted at {start}, and {behind} are there"
            )));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(start, &mut bytes)?;
        Ok(bytes.into())
    }
}
