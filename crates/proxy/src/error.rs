//! Why a request got no answer of an origin. What the public reads and what the log keeps are different things:
//! [`ProxyError::sentence`] and `Display`.

use std::io;

use http::StatusCode;

/// Why a request got no answer of an origin.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The request is not one that may be passed on.
    #[error("the request may not be passed on: {0}")]
    Request(#[from] RequestFault),
    /// The client stopped sending its body.
    #[error("the client sent nothing of its body for too long")]
    ClientStalled,
    /// The client's body broke off, or was malformed.
    #[error("the client's body broke off")]
    ClientBroke,
    /// The client sends too many bodies at once.
    #[error("the client sends too many bodies at once")]
    UploadsOfClient,
    /// All clients together send too many bodies at once.
    #[error("too many bodies are under way at once")]
    UploadsFull,
    /// Every connection to the origin was taken for too long.
    #[error("no connection to {origin} became free in time")]
    Busy {
        /// Its address.
        origin: String,
    },
    /// The origin could not be connected to.
    #[error("cannot connect to {origin}: {source}")]
    Connect {
        /// Its address.
        origin: String,
        /// Why not.
        source: io::Error,
    },
    /// The same, because it took too long.
    #[error("connecting to {origin} took too long")]
    ConnectTimeout {
        /// Its address.
        origin: String,
    },
    /// The connection ended before there was an answer.
    #[error("the connection to {origin} ended before an answer: {source}")]
    Broken {
        /// Its address.
        origin: String,
        /// What was noticed.
        source: hyper::Error,
    },
    /// The origin did not answer in time.
    #[error("{origin} did not answer in time")]
    ResponseTimeout {
        /// Its address.
        origin: String,
    },
    /// The origin stopped reading the body.
    #[error("{origin} took nothing of the body for too long")]
    OriginStalled {
        /// Its address.
        origin: String,
    },
    /// The answer is not one that may be passed on.
    #[error("the answer of {origin} may not be passed on: {fault}")]
    Response {
        /// Its address.
        origin: String,
        /// What is wrong with it.
        fault: ResponseFault,
    },
}

/// Why a request may not be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestFault {
    /// CONNECT and TRACE.
    #[error("its method is not passed on")]
    Method,
    /// There is no host.
    #[error("it names no host")]
    HostMissing,
    /// More than one Host.
    #[error("it names more than one host")]
    HostSeveral,
    /// A host that is no host name.
    #[error("its host is malformed")]
    HostMalformed,
    /// The target and the Host header field name different hosts.
    #[error("its target names another host than its Host header field")]
    HostContradicts,
    /// A target that is not a path.
    #[error("its target is not a path")]
    Target,
    /// A path that different servers read differently.
    #[error("its path can be read in several ways")]
    TargetAmbiguous,
    /// A length that is malformed, given twice, or not that of the body.
    #[error("its length is contradictory")]
    Length,
    /// It went through this kind of gateway too often.
    #[error("it came through too many gateways")]
    Loop,
}

/// Why an answer may not be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResponseFault {
    /// It switches to a protocol that was not asked for.
    #[error("it switches protocols without being asked")]
    UnaskedUpgrade,
    /// It has two lengths.
    #[error("it says its length twice")]
    Length,
    /// It has a transfer coding that we do not undo.
    #[error("its transfer coding is not supported")]
    TransferCoding,
}

impl ProxyError {
    /// The status that the client gets. Only an origin's fault is a 5xx.
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::Request(RequestFault::Method) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Request(_) | Self::ClientBroke => StatusCode::BAD_REQUEST,
            Self::ClientStalled => StatusCode::REQUEST_TIMEOUT,
            Self::UploadsOfClient => StatusCode::TOO_MANY_REQUESTS,
            Self::Busy { .. } | Self::UploadsFull => StatusCode::SERVICE_UNAVAILABLE,
            Self::Connect { .. } | Self::Broken { .. } | Self::Response { .. } => StatusCode::BAD_GATEWAY,
            Self::ConnectTimeout { .. } | Self::ResponseTimeout { .. } | Self::OriginStalled { .. } => {
                StatusCode::GATEWAY_TIMEOUT
            }
        }
    }

    /// One word for metrics and logs.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Request(RequestFault::Method) => "method",
            Self::Request(_) => "request",
            Self::ClientStalled => "client_stalled",
            Self::ClientBroke => "client_broke",
            Self::UploadsOfClient => "uploads_of_client",
            Self::UploadsFull => "uploads_full",
            Self::Busy { .. } => "busy",
            Self::Connect { .. } => "connect",
            Self::ConnectTimeout { .. } => "connect_timeout",
            Self::Broken { .. } => "broken",
            Self::ResponseTimeout { .. } => "response_timeout",
            Self::OriginStalled { .. } => "origin_stalled",
            Self::Response { .. } => "response",
        }
    }

    /// What the public reads: nothing about what is behind us.
    pub const fn sentence(&self) -> &'static str {
        match self {
            Self::Request(fault) => fault.sentence(),
            Self::ClientStalled => "The body of the request did not arrive in time.",
            Self::ClientBroke => "The body of the request broke off or was malformed.",
            Self::UploadsOfClient => "You are sending too much at once. Wait until some of it has arrived.",
            Self::Busy { .. } | Self::UploadsFull => "The site is too busy to answer at the moment.",
            Self::Connect { .. } | Self::Broken { .. } => "The site cannot be reached at the moment.",
            Self::ConnectTimeout { .. } | Self::ResponseTimeout { .. } | Self::OriginStalled { .. } => {
                "The site did not answer in time."
            }
            Self::Response { .. } => "The site gave an answer that cannot be passed on.",
        }
    }

    /// Whether the origin, not the client, is to blame.
    pub const fn is_of_origin(&self) -> bool {
        !matches!(
            self,
            Self::Request(_)
                | Self::ClientStalled
                | Self::ClientBroke
                | Self::UploadsOfClient
                | Self::UploadsFull
        )
    }
}

impl RequestFault {
    const fn sentence(self) -> &'static str {
        match self {
            Self::Method => "This method is not passed on to the site.",
            Self::HostMissing => "The request names no host.",
            Self::HostSeveral => "The request names more than one host.",
            Self::HostMalformed => "The host of the request is malformed.",
            Self::HostContradicts => "The request names two different hosts.",
            Self::Target => "The target of the request is not a path.",
            Self::TargetAmbiguous => "The path of the request can be read in several ways.",
            Self::Length => "The length of the request is contradictory.",
            Self::Loop => "The request went round in a circle.",
        }
    }
}
