//! What a shared store does to records before they leave the process, so that a third party that reads along learns
//! nothing of visitors.
//!
//! This crate knows no keys; the caller that opens a store brings the seal.

/// Makes records unreadable for others, and readable again.
pub trait Seal: Send + Sync + 'static {
    /// A record as it is stored.
    fn seal(&self, plain: &[u8]) -> Vec<u8>;

    /// The record that was sealed; `None` if it was sealed with other secrets, or changed since.
    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>>;
}

/// Seals nothing. For stores that nobody else can reach.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl Seal for Plain {
    fn seal(&self, plain: &[u8]) -> Vec<u8> {
        plain.to_vec()
    }

    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        Some(sealed.to_vec())
    }
}
