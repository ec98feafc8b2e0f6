//! What happened, as others hear of it.
//!
//! *The path of one event:* the rules leave it with a change (`anteroom_core::events`), the store writes it to its outbox in the same
//! transaction, a [`message`] gives it its one envelope, and a [`transport`] takes it to a destination. Which [`destinations`] there are
//! is one value of the store.

pub mod addresses;
mod data;
pub mod delivery;
pub mod destination;
pub mod destinations;
pub mod message;
pub mod reference;
pub mod schemas;
pub mod status;
pub mod transport;

pub use addresses::AllowedNetworks;
pub use destination::{Destination, DestinationKind, DestinationState, RetrySchedule, Target};
pub use destinations::{DestinationError, DestinationRules, DestinationTerms, Destinations};
pub use message::EventMessage;
pub use status::{DeadLetter, DeliveryControl, DestinationStatus, ReplayFrom};
pub use transport::policy::OutboundPolicy;
pub use transport::{OpenedSecrets, SendFailure, Transport, TransportError, transport_of};
