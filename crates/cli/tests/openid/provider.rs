//! The provider over HTTP, with a browser that keeps cookies and a site that is played by the test.

mod flow;
mod nodes;
mod refusals;
mod secrets;
mod stand;
mod tokens;
mod visitors;
