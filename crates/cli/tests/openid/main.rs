//! The `OpenID` provider, under clients that are not ours and have not been changed: logging in means to wait in line.
//!
//! Each client logs visitors in at Anteroom and, under the same tests, at npm oidc-provider, so that a fault of the tests is
//! not taken for one of the provider. A plain `./test` runs a few; `ANTEROOM_TEST_FULL=1` runs every client in every way.

#[path = "../support/mod.rs"]
mod support;

// Recipes, as the tests of `integrating` have them.
#[allow(dead_code, reason = "it reads single files, and never copies a whole recipe")]
#[path = "../integrating/recipe.rs"]
mod recipe;

mod anteroom;
mod browser;
mod clients;
mod discovery;
mod provider;
mod providers;
mod reference_provider;
mod visitor;
mod walk;
