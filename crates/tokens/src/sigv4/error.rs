//! Why a request with an AWS signature was refused: precisely for the log, coarsely for the client.

/// The furthest a request's date may be from the server's clock, either way, in milliseconds. API Gateway allows the same.
pub const CLOCK_SKEW_MAX_MS: u64 = 5 * 60 * 1000;

/// What is wrong with a signed request. No variant repeats anything the client sent: these texts are for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SigV4Error {
    /// Another scheme, or another version of this one.
    #[error("the Authorization header is not of the kind AWS4-HMAC-SHA256")]
    Algorithm,
    /// Longer than any signer writes.
    #[error("the Authorization header is longer than {} bytes", super::AUTHORIZATION_MAX_BYTES)]
    TooLong,
    /// Something beside the three parts.
    #[error("the Authorization header has a part that is neither Credential, SignedHeaders nor Signature")]
    UnknownPart,
    /// The same part twice.
    #[error("the Authorization header has its part {0} twice")]
    RepeatedPart(&'static str),
    /// One of the three parts is not there.
    #[error("the Authorization header lacks its part {0}")]
    MissingPart(&'static str),
    /// Not five fields, or not ending as it must.
    #[error("the credential is not KEY/DATE/REGION/SERVICE/aws4_request")]
    Credential,
    /// Not an access key id.
    #[error("the credential's access key id is misshapen")]
    AccessKeyId,
    /// Not eight digits of a date.
    #[error("the credential's date is not YYYYMMDD")]
    ScopeDate,
    /// Empty, too long, or with characters that no region has.
    #[error("the credential's region is misshapen")]
    Region,
    /// Signed for something else.
    #[error("the credential is for another service")]
    Service,
    /// Not a sorted list of header names in small letters.
    #[error("SignedHeaders is not a sorted list of header names in small letters")]
    SignedHeaders,
    /// Not 64 hexadecimal digits.
    #[error("the signature is not 64 hexadecimal digits in small letters")]
    Signature,
    /// A signature in the query.
    #[error("the request is a presigned URL, which is not supported")]
    Presigned,
    /// Segments that signers write in different ways.
    #[error("the path has an empty segment, or one that is `.` or `..`")]
    PathSegments,
    /// A header that must be signed is not.
    #[error("the header {0} is not signed")]
    NotSigned(&'static str),
    /// One of the headers that begin with `x-amz-`.
    #[error("the request has an x-amz- header that is not signed")]
    AmazonHeaderNotSigned,
    /// `SignedHeaders` names one that did not arrive.
    #[error("the request lacks a header that SignedHeaders names")]
    SignedHeaderMissing,
    /// Neither `x-amz-date` nor `date`.
    #[error("the request has neither x-amz-date nor date")]
    DateMissing,
    /// A date that cannot be read.
    #[error("the request's date is not readable, or given twice")]
    Date,
    /// The date in the credential is another day's.
    #[error("the credential's date is not the day of the request's date")]
    ScopeDateDiffers,
    /// Too long ago.
    #[error("the request's date is {0} ms in the past, more than {CLOCK_SKEW_MAX_MS}")]
    Stale(u64),
    /// Too far ahead.
    #[error("the request's date is {0} ms in the future, more than {CLOCK_SKEW_MAX_MS}")]
    Future(u64),
    /// `UNSIGNED-PAYLOAD`.
    #[error("the body is declared as unsigned")]
    PayloadUnsigned,
    /// One of the `STREAMING-…` kinds.
    #[error("the body is declared as signed in chunks, which is not supported")]
    PayloadStreaming,
    /// Not the hash of what arrived.
    #[error("x-amz-content-sha256 is not the hash of the body")]
    PayloadHash,
    /// No key pair of this id.
    #[error("the access key id is unknown")]
    UnknownAccessKey,
    /// The figures do not agree: another secret, or another request than the one that was signed.
    #[error("the signature is not that of this request")]
    Mismatch,
}

impl SigV4Error {
    /// What the client may read. Enough to repair an honest client; the same for a key that does not exist as for one
    /// whose secret is not known, so that key ids cannot be found out.
    pub const fn public_text(self) -> &'static str {
        match self {
            Self::UnknownAccessKey | Self::Mismatch => {
                "The access key is unknown, or the signature does not match the request"
            }
            Self::Stale(_) | Self::Future(_) => {
                "The request was signed more than 5 minutes before or after the time of this server; check the clock"
            }
            Self::Presigned => "Presigned URLs are not supported; sign with the Authorization header",
            Self::PayloadUnsigned | Self::PayloadStreaming => "The whole body must be signed",
            Self::PayloadHash => "X-Amz-Content-Sha256 is not the hash of the body",
            Self::Service => "The signature is for another service; sign for execute-api",
            Self::PathSegments => "The path has an empty segment, or one that is . or ..",
            Self::NotSigned(_) | Self::AmazonHeaderNotSigned => {
                "Host, the date and every X-Amz- header must be signed"
            }
            Self::SignedHeaderMissing => "SignedHeaders names a header that the request does not have",
            Self::DateMissing | Self::Date | Self::ScopeDateDiffers => {
                "X-Amz-Date is missing, misshapen, or of another day than the credential"
            }
            Self::Algorithm
            | Self::TooLong
            | Self::UnknownPart
            | Self::RepeatedPart(_)
            | Self::MissingPart(_)
            | Self::Credential
            | Self::AccessKeyId
            | Self::ScopeDate
            | Self::Region
            | Self::SignedHeaders
            | Self::Signature => "The Authorization header is not a readable AWS4-HMAC-SHA256 signature",
        }
    }
}
