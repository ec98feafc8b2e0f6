//! Bodies of requests: bytes in memory, or a file read as the connection takes it.

use std::io;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::fs::File;
use tokio::io::{AsyncRead, ReadBuf};

/// How much of a file is read at once, in bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// The body of a request.
pub(super) enum RequestBody {
    /// In memory.
    Whole(Full<Bytes>),
    /// From a file.
    File(FileBody),
}

impl RequestBody {
    /// These bytes, or no body.
    pub(super) fn whole(bytes: Option<Bytes>) -> Self {
        Self::Whole(Full::new(bytes.unwrap_or_default()))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Whole(body) => {
                let frame = ready!(Pin::new(body).poll_frame(context));
                Poll::Ready(frame.map(|frame| frame.map_err(|never| match never {})))
            }
            Self::File(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::File(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::File(body) => body.size_hint(),
        }
    }
}

/// A file as a body. Its length is fixed when it is opened: it is sent as Content-Length.
pub(super) struct FileBody {
    file: File,
    remaining_bytes: u64,
    /// How many bytes have been taken so far, to show the progress.
    moved: Arc<AtomicU64>,
}

impl FileBody {
    /// Opens a file to be sent; `moved` counts the bytes taken from it.
    pub(super) async fn open(path: &Path, moved: Arc<AtomicU64>) -> io::Result<Self> {
        let file = File::open(path).await?;
        let remaining_bytes = file.metadata().await?.len();
        Ok(Self { file, remaining_bytes, moved })
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if this.remaining_bytes == 0 {
            return Poll::Ready(None);
        }
        let wanted = usize::try_from(this.remaining_bytes).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let mut piece = vec![0; wanted];
        let mut buffer = ReadBuf::new(&mut piece);
        if let Err(error) = ready!(pin!(&mut this.file).poll_read(context, &mut buffer)) {
            return Poll::Ready(Some(Err(error)));
        }
        let read = buffer.filled().len();
        if read == 0 {
            let shorter =
                io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was sent");
            return Poll::Ready(Some(Err(shorter)));
        }
        piece.truncate(read);
        this.remaining_bytes -= read as u64;
        this.moved.fetch_add(read as u64, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining_bytes == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining_bytes)
    }
}
