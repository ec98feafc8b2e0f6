//! Calls about the `OpenID` clients of a room.

use serde_json::json;

use super::MOMENT;
use super::call::Call;
use super::calls_private::of_room;
use super::schemas::ClientId;
use crate::api::clients::{ClientView, ClientsView, NewClientBody, NewClientView, RotationBody, SecretView};
use crate::http::problem::Problem;

fn client() -> ClientView {
    ClientView {
        id: "shop".to_owned(),
        name: "The shop".to_owned(),
        redirect_addresses: vec!["https://shop.example/callback".to_owned()],
        public: false,
        access_token_seconds: Some(900),
        id_token_seconds: None,
        login_address: None,
        created_at: MOMENT.to_owned(),
        from_file: false,
        secrets: vec![SecretView { created_at: MOMENT.to_owned(), expires_at: None }],
    }
}

fn new_client() -> NewClientView {
    NewClientView { client: client(), secret: Some("ar_client_3mJ8q0Zt5xW2".to_owned()) }
}

fn of_client(id: &'static str, summary: &'static str, description: &str) -> Call {
    of_room(id, summary, description)
        .path::<ClientId>("client", "The client's id.", "shop")
        .problems(&[Problem::UnknownRoom, Problem::UnknownName])
}

pub(crate) fn list_clients() -> Call {
    of_room("listClients", "The OpenID clients of a room", "Without their secrets.")
        .json(200, "The clients.", &ClientsView { clients: vec![client()] })
        .problems(&[Problem::UnknownRoom])
}

pub(crate) fn show_client() -> Call {
    of_client("showClient", "An OpenID client", "Without its secrets.").json(200, "The client.", &client())
}

pub(crate) fn create_client() -> Call {
    let taken = [("id", "$request.path.id"), ("client", "$response.body#/id")];
    of_room(
        "createClient",
        "Makes an OpenID client",
        "A site that lets its visitors log in by waiting in this room. Its secret is shown this once; a public client has none. A room \
         has at most 64, and they are deleted with it.",
    )
    .body::<NewClientBody>(json!({
        "id": "shop",
        "name": "The shop",
        "redirect_addresses": ["https://shop.example/callback"],
        "access_token_seconds": 900,
    }))
    .json(201, "The client.", &new_client())
    .leads_to("showClient", &taken)
    .leads_to("rotateClientSecret", &taken)
    .leads_to("deleteClient", &taken)
    .problems(&[Problem::UnknownRoom, Problem::NameTaken, Problem::Conflict])
}

pub(crate) fn delete_client() -> Call {
    of_client(
        "deleteClient",
        "Deletes an OpenID client",
        "Nobody logs in by it from then on. One of the configuration file is deleted there.",
    )
    .empty(204, "It was deleted.")
    .problems(&[Problem::Conflict])
}

pub(crate) fn rotate_client_secret() -> Call {
    of_client(
        "rotateClientSecret",
        "Gives an OpenID client a new secret",
        "It is shown this once. The secret before goes on for as long as is said, so that the site can change over; one that is older \
         stops working at once.",
    )
    .optional_body::<RotationBody>(json!({"previous_expires_in_seconds": 86_400}))
    .json(201, "The client.", &new_client())
    .leads_to("revokePreviousSecret", &[("id", "$request.path.id"), ("client", "$request.path.client")])
    .problems(&[Problem::Conflict])
}

pub(crate) fn revoke_previous_secret() -> Call {
    of_client(
        "revokePreviousSecret",
        "Ends the secret before the newest one of an OpenID client",
        "For when the site has changed over. Only the newest secret works from then on.",
    )
    .empty(204, "It was revoked.")
    .problems(&[Problem::Conflict])
}
