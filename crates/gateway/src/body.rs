//! Bodies of the gateway's answers: our own bytes, or what an origin streams.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};

use anteroom_proxy::ProxyBody;

/// The body of an answer.
#[derive(Debug)]
pub enum GatewayBody {
    /// Bytes that are all there.
    Whole(Full<Bytes>),
    /// From an origin, as it comes.
    Streamed(ProxyBody),
}

impl GatewayBody {
    pub(crate) fn of(text: impl Into<Bytes>) -> Self {
        Self::Whole(Full::new(text.into()))
    }
}

impl Body for GatewayBody {
    type Data = Bytes;
    type Error = <ProxyBody as Body>::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context).map_err(|never| match never {}),
            Self::Streamed(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Streamed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Streamed(body) => body.size_hint(),
        }
    }
}
