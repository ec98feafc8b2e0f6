//! Requests that wait while exchanges with idle clients hold the connections.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use crate::support::{DEADLINE, Front, VISIT, WITHOUT_VISIT};
use anteroom_proxy::{ForwardedResponse, Hop, Origins, ProxyError, ProxySettings, VisitTag, forward};
use anteroom_testkit::{Client, Origin, Request, now, wait_until};
use bytes::Bytes;
use http::HeaderMap;
use hyper::body::{Body, Frame};

/// How many exchanges with idle clients there are: as many as may have connections.
const UPLOADS: usize = 3;
/// As much of a body as goes out before the rest of it is there.
const SENT_BYTES: usize = 64 * 1024;
/// A request gives up no second exchange within this time.
const EVICTION_PAUSE: Duration = Duration::from_millis(500);

/// A body of which a part has come, and no more comes.
struct Unfinished(Option<Bytes>);

impl Body for Unfinished {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |data| Poll::Ready(Some(Ok(Frame::data(data)))))
    }
}

/// Exchanges that go on only when the test polls them: an exchange that was given up keeps its connection until then, as on a machine
/// whose cores are all busy.
struct Uploads(Vec<Upload>);

type Upload = Pin<Box<dyn Future<Output = Result<ForwardedResponse, ProxyError>> + Send>>;

impl Uploads {
    fn new(origins: &Arc<Origins>, visit: Option<VisitTag>) -> Self {
        let upload = || {
            let origins = Arc::clone(origins);
            async move {
                let body = Unfinished(Some(vec![b'u'; SENT_BYTES].into()));
                let request = http::Request::post("/upload").header("host", "a").body(body).unwrap();
                let hop = Hop { client: IpAddr::from([192, 0, 2, 8]), is_tls: false, visit };
                forward(&origins, request, &hop, &HeaderMap::new()).await
            }
        };
        Self((0..UPLOADS).map(|_| Box::pin(upload()) as _).collect())
    }

    /// Lets each go on; those that were given up end.
    fn poll(&mut self, front: &Front) {
        let poll_all = |context: &mut Context<'_>| {
            self.0.retain_mut(|upload| match upload.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(ended) => {
                    assert!(matches!(ended, Err(ProxyError::ClientStalled)), "{ended:?}");
                    false
                }
            });
            Poll::Ready(())
        };
        front.block_on(std::future::poll_fn(poll_all));
    }
}

/// A request waits while uploads have all the connections that these settings allow to requests like it.
fn assert_one_is_given_up(settings: ProxySettings, visit: Option<VisitTag>) {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let front = Front::before(origin.address(), ProxySettings { connection_wait: 2 * DEADLINE, ..settings });
    let given_up = || front.origins.view().evicted;
    let mut uploads = Uploads::new(&front.origins, visit);
    wait_until("the origin has what there is of each upload", DEADLINE, || {
        uploads.poll(&front);
        let has_arrived = |upload| origin.bytes_of(upload).len() > SENT_BYTES;
        origin.connections() == UPLOADS && (0..UPLOADS).all(has_arrived)
    });
    uploads.poll(&front);

    let address = front.address;
    let waiting = thread::spawn(move || {
        let request = Request::new("GET", "/");
        let request = if visit.is_none() { request.header(WITHOUT_VISIT, "1") } else { request };
        Client::new(address).send(&request).unwrap().status
    });
    let mut none_given_up_at = now();
    wait_until("an exchange is given up", DEADLINE, || {
        let begun = now();
        let is_none = given_up() == 0;
        if is_none {
            none_given_up_at = begun;
        }
        !is_none
    });
    // Its connection does not come, so another one is given up, but not at once.
    wait_until("another exchange is given up", DEADLINE, || given_up() > 1);
    let pause = none_given_up_at.elapsed();
    assert!(pause >= EVICTION_PAUSE, "a second exchange was given up after {pause:?}");

    wait_until("the request has its connection", DEADLINE, || {
        uploads.poll(&front);
        waiting.is_finished()
    });
    assert_eq!(waiting.join().unwrap(), 200);
    drop(uploads);
    front.comes_to_rest();
}

#[test]
fn a_request_that_waits_for_a_connection_gives_up_one_exchange_and_not_several() {
    let settings = ProxySettings { connections_max: UPLOADS, ..ProxySettings::default() };
    assert_one_is_given_up(settings, Some(VISIT));
}

#[test]
fn a_request_that_waits_for_its_visit_gives_up_one_exchange_and_not_several() {
    let settings = ProxySettings { connections_per_visit_max: UPLOADS, ..ProxySettings::default() };
    assert_one_is_given_up(settings, Some(VISIT));
}

#[test]
fn a_request_without_a_visit_that_waits_gives_up_one_exchange_and_not_several() {
    let settings =
        ProxySettings { connections_max: 2 * UPLOADS, without_visit_percent: 50, ..ProxySettings::default() };
    assert_one_is_given_up(settings, None);
}
