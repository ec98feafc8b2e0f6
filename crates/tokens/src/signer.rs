//! Signs passes on a few threads of their own, and the tokens of the OpenID provider.
//!
//! A pass costs 2 ms of RSA, and a visitor can ask for it any number of times, so signing must not exhaust the server:
//!
//! - It never runs on the threads that serve requests, and never on more threads than it was given.
//! - Those who ask for the same pass at the same time share one signing; who asks again soon after gets the remembered one.
//! - The queue has an end. Beyond it the answer is [`SignError::Overloaded`] at once, instead of a wait for nothing.
//!
//! Passes are told apart by key and claims, all of which go into the tokens: two requests share an answer exactly if the
//! answer is the same. A caller that gives up takes nothing with it, since the signing belongs to the pool.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::watch;

use crate::openid::token_pair::{self, OpenIdClaims, OpenIdTokenPair};
use crate::pass::{self, PassClaims, Signatures, SignedPass, SigningFailed, TokenSet};
use crate::signing_key::SigningKey;

/// How many passes are remembered; about 4 KB each.
pub const SIGNED_RECENTLY_MAX: usize = 1_024;

/// Why there is no pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// More passes are waiting to be signed than the queue holds: try again soon.
    #[error("too many passes are waiting to be signed")]
    Overloaded,
    /// The library refused.
    #[error("a pass could not be signed")]
    Failed,
}

/// The pool. Its threads end when it is dropped.
pub struct Signer {
    pool: Arc<Pool>,
    /// Taken when the pool is dropped, which tells the threads to end.
    jobs: Option<SyncSender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

/// How a pass is signed; another function only in tests.
type SigningFunction = dyn Fn(&SigningKey, &Order) -> Result<SignedPass, SigningFailed> + Send + Sync;

type Outcome = Result<Arc<SignedPass>, SignError>;

/// What the callers and the threads both see.
struct Pool {
    table: Mutex<PassTable>,
    signing_function: Box<SigningFunction>,
    closing: AtomicBool,
    signings: AtomicU64,
    answers_shared: AtomicU64,
    refusals: AtomicU64,
    /// How many passes may be in flight: those in the queue, and one for each thread.
    in_flight_max: usize,
}

/// What is signed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Order {
    /// All three tokens of a pass.
    Pass(PassClaims),
    /// The access token of a pass alone; the other two are empty.
    AccessToken(PassClaims),
    /// The access token and the ID token of a client of the OpenID provider; the refresh token is empty, because nobody signs it.
    OpenId(OpenIdClaims),
}

/// Everything that decides the bytes of the answer.
#[derive(PartialEq, Eq, Hash)]
struct Flight {
    kid: String,
    order: Order,
}

#[derive(Default)]
struct PassTable {
    /// Queued or being signed; bounded by the queue and the threads.
    in_flight: HashMap<Arc<Flight>, watch::Receiver<Option<Outcome>>>,
    /// Signed lately.
    remembered: HashMap<Arc<Flight>, Arc<SignedPass>>,
    /// The remembered ones, oldest first.
    order: VecDeque<Arc<Flight>>,
}

struct Job {
    flight: Arc<Flight>,
    key: Arc<SigningKey>,
    outcome: watch::Sender<Option<Outcome>>,
}

/// A pass that a caller need not have signed.
enum Lookup {
    Remembered(Arc<SignedPass>),
    InFlight(watch::Receiver<Option<Outcome>>),
}

impl Signer {
    /// A pool of `threads` threads with `queue_length` places to wait, at least one each.
    pub fn new(threads: usize, queue_length: usize) -> io::Result<Self> {
        Self::with_signing_function(threads, queue_length, Box::new(sign_order))
    }

    fn with_signing_function(
        threads: usize,
        queue_length: usize,
        signing_function: Box<SigningFunction>,
    ) -> io::Result<Self> {
        let (jobs, queue) = mpsc::sync_channel(queue_length.max(1));
        let queue = Arc::new(Mutex::new(queue));
        let pool = Arc::new(Pool {
            table: Mutex::default(),
            signing_function,
            closing: AtomicBool::new(false),
            signings: AtomicU64::new(0),
            answers_shared: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            in_flight_max: queue_length.max(1) + threads.max(1),
        });
        let mut signer = Self { pool, jobs: Some(jobs), threads: Vec::new() };
        for number in 0..threads.max(1) {
            let (pool, queue) = (Arc::clone(&signer.pool), Arc::clone(&queue));
            let thread = thread::Builder::new().name(format!("signer-{number}"));
            signer.threads.push(thread.spawn(move || pool.run_worker(&queue))?);
        }
        Ok(signer)
    }

    /// The pass that `key` signs for `claims`.
    pub async fn sign(&self, key: Arc<SigningKey>, claims: PassClaims) -> Outcome {
        self.execute(key, Order::Pass(claims)).await
    }

    /// The access token of it, at a third of the cost.
    pub async fn sign_access(&self, key: Arc<SigningKey>, claims: PassClaims) -> Result<String, SignError> {
        let signed = self.execute(key, Order::AccessToken(claims)).await?;
        Ok(signed.tokens.access_token.clone())
    }

    /// The tokens that a client of the OpenID provider gets.
    pub async fn sign_openid(
        &self,
        key: Arc<SigningKey>,
        claims: OpenIdClaims,
    ) -> Result<OpenIdTokenPair, SignError> {
        let tokens = &self.execute(key, Order::OpenId(claims)).await?.tokens;
        Ok(OpenIdTokenPair { access_token: tokens.access_token.clone(), id_token: tokens.id_token.clone() })
    }

    /// The pass that `key` has signed for `claims` lately. Signs nothing.
    pub fn remembered(&self, key: &SigningKey, claims: &PassClaims) -> Option<Arc<SignedPass>> {
        let flight = Flight { kid: key.kid().to_owned(), order: Order::Pass(claims.clone()) };
        let signed = self.pool.table().remembered.get(&flight).map(Arc::clone)?;
        self.pool.answers_shared.fetch_add(1, Ordering::Relaxed);
        Some(signed)
    }

    async fn execute(&self, key: Arc<SigningKey>, order: Order) -> Outcome {
        let mut outcome = match self.find_or_begin(key, order)? {
            Lookup::Remembered(signed) => return Ok(signed),
            Lookup::InFlight(outcome) => outcome,
        };
        match outcome.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Err(SignError::Failed)),
            Err(_) => Err(SignError::Failed),
        }
    }

    /// How many passes were signed, each of them three signatures.
    pub fn signings(&self) -> u64 {
        self.pool.signings.load(Ordering::Relaxed)
    }

    /// How many callers got a pass, or its failure, that was signed for another.
    pub fn answers_shared(&self) -> u64 {
        self.pool.answers_shared.load(Ordering::Relaxed)
    }

    /// How many passes are queued or being signed.
    pub fn in_flight(&self) -> usize {
        self.pool.table().in_flight.len()
    }

    /// How many may be; beyond it the answer is [`SignError::Overloaded`].
    pub fn in_flight_max(&self) -> usize {
        self.pool.in_flight_max
    }

    /// How many passes were refused because the queue was full.
    pub fn refusals(&self) -> u64 {
        self.pool.refusals.load(Ordering::Relaxed)
    }

    /// Not async, so that the lock cannot be held while waiting.
    fn find_or_begin(&self, key: Arc<SigningKey>, order: Order) -> Result<Lookup, SignError> {
        let flight = Flight { kid: key.kid().to_owned(), order };
        let mut table = self.pool.table();
        let known = table
            .remembered
            .get(&flight)
            .map(|signed| Lookup::Remembered(Arc::clone(signed)))
            .or_else(|| table.in_flight.get(&flight).map(|outcome| Lookup::InFlight(outcome.clone())));
        if let Some(known) = known {
            self.pool.answers_shared.fetch_add(1, Ordering::Relaxed);
            return Ok(known);
        }
        let flight = Arc::new(flight);
        let (sender, receiver) = watch::channel(None);
        let job = Job { flight: Arc::clone(&flight), key, outcome: sender };
        let jobs = self.jobs.as_ref().expect("the queue is open until the pool is dropped");
        jobs.try_send(job).map_err(|_| {
            self.pool.refusals.fetch_add(1, Ordering::Relaxed);
            SignError::Overloaded
        })?;
        table.in_flight.insert(flight, receiver.clone());
        Ok(Lookup::InFlight(receiver))
    }
}

impl Drop for Signer {
    fn drop(&mut self) {
        // Nobody waits any more: waiting borrows the pool. So what is still queued need not be signed.
        self.pool.closing.store(true, Ordering::Relaxed);
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has ended too, which is all that matters here.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Signer({} threads, {} signings)", self.threads.len(), self.signings())
    }
}

fn sign_order(key: &SigningKey, order: &Order) -> Result<SignedPass, SigningFailed> {
    match order {
        Order::Pass(claims) => pass::sign(key, claims),
        Order::AccessToken(claims) => pass::sign_access(key, claims),
        Order::OpenId(claims) => {
            let OpenIdTokenPair { access_token, id_token } = token_pair::sign(key, claims)?;
            let tokens = TokenSet { access_token, id_token, refresh_token: String::new() };
            Ok(SignedPass { tokens, signatures: Signatures::none() })
        }
    }
}

impl Pool {
    /// The loop of one thread.
    fn run_worker(&self, queue: &Mutex<Receiver<Job>>) {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            match next {
                Ok(job) if !self.closing.load(Ordering::Relaxed) => self.execute(&job),
                _ => return,
            }
        }
    }

    fn execute(&self, job: &Job) {
        self.signings.fetch_add(1, Ordering::Relaxed);
        // A panic must cost one pass, not a thread of the pool.
        let result = catch_unwind(AssertUnwindSafe(|| (self.signing_function)(&job.key, &job.flight.order)));
        let outcome = match result {
            Ok(Ok(signed)) => Ok(Arc::new(signed)),
            Ok(Err(SigningFailed)) | Err(_) => Err(SignError::Failed),
        };
        self.table().finish(&job.flight, &outcome);
        job.outcome.send_replace(Some(outcome));
    }

    fn table(&self) -> MutexGuard<'_, PassTable> {
        // Nothing under this lock can panic half-way, so a poisoned table is still whole.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PassTable {
    /// Ends a flight and remembers its pass; a failure is forgotten, so that the next caller tries again.
    fn finish(&mut self, flight: &Arc<Flight>, outcome: &Outcome) {
        self.in_flight.remove(flight);
        let Ok(signed) = outcome else { return };
        // A code is exchanged once, so nobody asks for its tokens again.
        if matches!(flight.order, Order::OpenId(_)) {
            return;
        }
        if self.order.len() >= SIGNED_RECENTLY_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.remembered.remove(&oldest);
        }
        self.order.push_back(Arc::clone(flight));
        self.remembered.insert(Arc::clone(flight), Arc::clone(signed));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anteroom_core::ids::{Position, RequestId, RoomId, UnixMillis};
    use tokio::task::JoinSet;

    use super::*;
    use crate::signing_key::SigningAlgorithm;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
    const DEADLINE: Duration = Duration::from_mins(1);

    fn key(algorithm: SigningAlgorithm) -> Arc<SigningKey> {
        Arc::new(SigningKey::generate(algorithm, NOW, NOW).unwrap())
    }

    fn claims(number: u64) -> PassClaims {
        PassClaims {
            audience: RoomId::parse("Sample").unwrap(),
            subject: RequestId([7; 16]),
            issuer: "https://example.test".into(),
            queue_position: Position::new(number).unwrap(),
            issued_at_seconds: 1_800_000_000,
            expires_at_seconds: 1_800_003_600,
            enter_by_seconds: None,
        }
    }

    /// A pool whose threads sign one pass for each `()` that is sent to them.
    fn signer_with_gate(threads: usize, queue_length: usize) -> (Arc<Signer>, SyncSender<()>) {
        let (open, gate) = mpsc::sync_channel::<()>(1_000);
        let gate = Mutex::new(gate);
        let signing_function: Box<SigningFunction> = Box::new(move |key, order| {
            gate.lock().unwrap().recv().map_err(|_| SigningFailed)?;
            sign_order(key, order)
        });
        (Arc::new(Signer::with_signing_function(threads, queue_length, signing_function).unwrap()), open)
    }

    async fn wait_until(condition: impl Fn() -> bool) {
        let waiting = async {
            while !condition() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, waiting).await.expect("the state waited for did not come about");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_hundred_concurrent_calls_are_one_signing() {
        // ES256, because there two signings would show: their bytes differ.
        let (signer, open) = signer_with_gate(2, 8);
        let key = key(SigningAlgorithm::Es256);
        let mut calls = JoinSet::new();
        for _ in 0..100 {
            let (signer, key) = (Arc::clone(&signer), Arc::clone(&key));
            calls.spawn(async move { signer.sign(key, claims(1)).await.unwrap() });
        }
        wait_until(|| signer.answers_shared() == 99).await;
        open.send(()).unwrap();
        let passes = tokio::time::timeout(DEADLINE, calls.join_all()).await.unwrap();
        assert_eq!(passes.len(), 100);
        assert!(passes.iter().all(|pass| pass.tokens == passes[0].tokens));
        assert_eq!(signer.signings(), 1);
    }

    #[tokio::test]
    async fn a_repeated_call_is_answered_from_memory() {
        let signer = Signer::new(1, 1).unwrap();
        let key = key(SigningAlgorithm::Es256);
        let first = signer.sign(Arc::clone(&key), claims(1)).await.unwrap();
        let second = signer.sign(key, claims(1)).await.unwrap();
        assert!(first.tokens == second.tokens);
        assert_eq!((signer.signings(), signer.answers_shared()), (1, 1));
    }

    #[tokio::test]
    async fn a_new_access_token_costs_one_signature() {
        let orders = Arc::new(Mutex::new(vec![]));
        let record = Arc::clone(&orders);
        let signing_function: Box<SigningFunction> = Box::new(move |key, order| {
            record.lock().unwrap().push(order.clone());
            sign_order(key, order)
        });
        let signer = Signer::with_signing_function(1, 1, signing_function).unwrap();
        let key = key(SigningAlgorithm::EdDsa);
        let access = signer.sign_access(Arc::clone(&key), claims(1)).await.unwrap();
        assert!(signer.remembered(&key, &claims(1)).is_none(), "it is no whole pass");
        let whole = signer.sign(Arc::clone(&key), claims(1)).await.unwrap();
        assert_eq!(access, whole.tokens.access_token, "the same token");
        assert_eq!(*orders.lock().unwrap(), [Order::AccessToken(claims(1)), Order::Pass(claims(1))]);
        assert!(signer.remembered(&key, &claims(1)).is_some_and(|pass| pass.tokens == whole.tokens));
    }

    #[tokio::test]
    async fn other_claims_or_another_key_are_another_pass() {
        let signer = Signer::new(1, 1).unwrap();
        let (first_key, second_key) = (key(SigningAlgorithm::EdDsa), key(SigningAlgorithm::EdDsa));
        let another_issuer = PassClaims { issuer: "https://other.test".into(), ..claims(1) };
        let mut seen = std::collections::HashSet::new();
        for (key, claims) in [
            (&first_key, claims(1)),
            (&second_key, claims(1)),
            (&first_key, claims(2)),
            (&first_key, another_issuer),
        ] {
            seen.insert(signer.sign(Arc::clone(key), claims).await.unwrap().tokens.access_token.clone());
        }
        assert_eq!(seen.len(), 4);
        assert_eq!((signer.signings(), signer.answers_shared()), (4, 0));
    }

    #[tokio::test]
    async fn tokens_of_the_openid_provider_are_shared_while_they_are_signed_and_not_remembered() {
        let (signer, open) = signer_with_gate(1, 2);
        let key = key(SigningAlgorithm::Es256);
        let openid_claims = |nonce: &str| OpenIdClaims {
            room: RoomId::parse("Sample").unwrap(),
            client_id: "shop".into(),
            subject: crate::OpenIdSubject([7; 16]),
            issuer: "https://example.test".into(),
            queue_position: Position::new(1).unwrap(),
            grant: 5,
            issued_at_seconds: 1_800_000_000,
            access_expires_at_seconds: 1_800_003_600,
            id_expires_at_seconds: 1_800_003_600,
            auth_time_seconds: 1_800_000_000,
            nonce: Some(nonce.into()),
            enter_by_seconds: None,
        };
        let mut calls = JoinSet::new();
        for nonce in ["one", "one", "two"] {
            let (signer, key, claims) = (Arc::clone(&signer), Arc::clone(&key), openid_claims(nonce));
            calls.spawn(async move { signer.sign_openid(key, claims).await.unwrap() });
        }
        wait_until(|| signer.answers_shared() == 1).await;
        for _ in 0..3 {
            open.send(()).unwrap();
        }
        let pairs = tokio::time::timeout(DEADLINE, calls.join_all()).await.unwrap();
        let different: std::collections::HashSet<_> = pairs.iter().map(|pair| &pair.id_token).collect();
        assert_eq!((different.len(), signer.signings()), (2, 2));
        let again = signer.sign_openid(key, openid_claims("one")).await.unwrap();
        assert!(!different.contains(&again.id_token), "signed anew");
        assert!(signer.pool.table().remembered.is_empty());
    }

    #[tokio::test]
    async fn memory_is_bounded_and_the_oldest_pass_goes_first() {
        let signer = Signer::new(1, 1).unwrap();
        let key = key(SigningAlgorithm::EdDsa);
        let most = SIGNED_RECENTLY_MAX as u64;
        for number in 1..=most + 1 {
            signer.sign(Arc::clone(&key), claims(number)).await.unwrap();
        }
        assert_eq!(signer.signings(), most + 1);
        {
            let table = signer.pool.table();
            assert_eq!(
                (table.remembered.len(), table.order.len()),
                (SIGNED_RECENTLY_MAX, SIGNED_RECENTLY_MAX)
            );
            assert!(table.in_flight.is_empty());
        }
        signer.sign(Arc::clone(&key), claims(2)).await.unwrap();
        assert_eq!(signer.signings(), most + 1, "still remembered");
        signer.sign(key, claims(1)).await.unwrap();
        assert_eq!(signer.signings(), most + 2, "was forgotten");
    }

    #[tokio::test]
    async fn a_full_queue_refuses_at_once_and_recovers() {
        let (signer, open) = signer_with_gate(1, 1);
        let key = key(SigningAlgorithm::EdDsa);
        let begin = |number| signer.find_or_begin(Arc::clone(&key), Order::Pass(claims(number))).map(|_| ());
        begin(1).unwrap();
        wait_until(|| signer.signings() == 1).await;
        begin(2).unwrap();
        assert_eq!(begin(3), Err(SignError::Overloaded));
        assert_eq!(signer.sign(Arc::clone(&key), claims(3)).await.unwrap_err(), SignError::Overloaded);
        begin(2).expect("a request for a pass in flight is not one more");
        assert_eq!((signer.in_flight(), signer.in_flight_max(), signer.refusals()), (2, 2, 2));
        for _ in 0..3 {
            open.send(()).unwrap();
        }
        signer.sign(Arc::clone(&key), claims(2)).await.unwrap();
        signer.sign(Arc::clone(&key), claims(3)).await.unwrap();
        assert_eq!(signer.signings(), 3);
    }

    #[tokio::test]
    async fn a_caller_that_gives_up_does_not_take_the_others_with_it() {
        let (signer, open) = signer_with_gate(1, 1);
        let key = key(SigningAlgorithm::Es256);
        let mut calls = JoinSet::new();
        let call = |signer: &Arc<Signer>| {
            let (signer, key) = (Arc::clone(signer), Arc::clone(&key));
            async move { signer.sign(key, claims(1)).await }
        };
        let first = calls.spawn(call(&signer));
        wait_until(|| signer.signings() == 1).await;
        calls.spawn(call(&signer));
        wait_until(|| signer.answers_shared() == 1).await;
        first.abort();
        assert!(calls.join_next().await.unwrap().unwrap_err().is_cancelled());
        open.send(()).unwrap();
        assert!(calls.join_next().await.unwrap().unwrap().is_ok());
        assert!(call(&signer).await.is_ok());
        assert_eq!(signer.signings(), 1);
    }

    #[tokio::test]
    async fn a_failed_or_panicking_signing_is_reported_and_not_remembered() {
        let signing_function: Box<SigningFunction> = Box::new(|key, order| match order {
            Order::Pass(claims) if claims.queue_position.get() == 1 => Err(SigningFailed),
            Order::Pass(claims) if claims.queue_position.get() == 2 => {
                panic!("this panic belongs to the test")
            }
            order => sign_order(key, order),
        });
        let signer = Signer::with_signing_function(1, 1, signing_function).unwrap();
        let key = key(SigningAlgorithm::EdDsa);
        for number in [1, 2, 1] {
            assert_eq!(signer.sign(Arc::clone(&key), claims(number)).await.unwrap_err(), SignError::Failed);
        }
        assert!(signer.sign(key, claims(3)).await.is_ok(), "the only thread is still alive");
        assert_eq!((signer.signings(), signer.answers_shared()), (4, 0));
    }

    #[tokio::test]
    async fn threads_end_when_the_pool_is_dropped_and_leave_the_queue_unsigned() {
        let (signer, open) = signer_with_gate(2, 8);
        let key = key(SigningAlgorithm::EdDsa);
        for number in 1..=8 {
            signer.find_or_begin(Arc::clone(&key), Order::Pass(claims(number))).unwrap();
        }
        wait_until(|| signer.signings() == 2).await;
        let pool = Arc::clone(&signer.pool);
        pool.closing.store(true, Ordering::Relaxed);
        drop(open);
        drop(signer);
        assert_eq!(Arc::strong_count(&pool), 1, "both threads have ended");
        assert_eq!(pool.signings.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn debug_output_holds_no_token() {
        assert_eq!(format!("{:?}", Signer::new(2, 1).unwrap()), "Signer(2 threads, 0 signings)");
    }
}
