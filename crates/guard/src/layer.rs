//! The tower layer: lets a request through with its [`Pass`](crate::Pass) in the extensions, or answers it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use crate::guard::Guard;
use crate::response::WaitingPage;

/// Puts a guard before a service whose responses can be made from bytes: every axum router, and hyper services with
/// `Full<Bytes>`. For others there are [`Guard::verify_request`] and [`Guard::response`].
#[derive(Debug, Clone)]
pub struct GuardLayer {
    guard: Guard,
    waiting_page: Option<Arc<WaitingPage>>,
}

impl GuardLayer {
    /// Answers requests without a good pass with 401.
    pub fn new(guard: Guard) -> Self {
        Self { guard, waiting_page: None }
    }

    /// Redirects visitors who open a page without a good pass to the waiting page. Everything else still gets 401.
    #[must_use]
    pub fn redirect_to(self, page: WaitingPage) -> Self {
        Self { waiting_page: Some(Arc::new(page)), ..self }
    }
}

impl<Inner> Layer<Inner> for GuardLayer {
    type Service = GuardService<Inner>;

    fn layer(&self, inner: Inner) -> Self::Service {
        GuardService { layer: self.clone(), inner }
    }
}

/// What [`GuardLayer`] makes.
#[derive(Debug, Clone)]
pub struct GuardService<Inner> {
    layer: GuardLayer,
    inner: Inner,
}

impl<Inner, RequestBody, ResponseBody> Service<Request<RequestBody>> for GuardService<Inner>
where
    Inner: Service<Request<RequestBody>, Response = Response<ResponseBody>> + Clone + Send + 'static,
    Inner::Future: Send,
    RequestBody: Send + 'static,
    ResponseBody: From<Bytes>,
{
    type Response = Response<ResponseBody>;
    type Error = Inner::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        // The service that was ready is the one to call; its clone may not be.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let GuardLayer { guard, waiting_page } = self.layer.clone();
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            match guard.verify_parts(&parts.headers, &parts.uri).await {
                Ok(pass) => {
                    parts.extensions.insert(pass);
                    inner.call(Request::from_parts(parts, body)).await
                }
                Err(refusal) => Ok(guard.response(
                    refusal,
                    &parts.method,
                    &parts.uri,
                    &parts.headers,
                    waiting_page.as_deref(),
                )),
            }
        })
    }
}
