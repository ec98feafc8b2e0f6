//! The bare loop: sockets in a list and one write each, what sending something to everybody cannot do without.

use std::io::{BufRead, Read, Write};
use std::net::{TcpListener, TcpStream};

use anyhow::{Context, Result};

/// What a test line is replaced with, so that every change has a text of its own.
pub(crate) const PLACEHOLDER: &str = "\"serving\":0,";

/// The text of a change.
pub(crate) fn change_text(event: &str, change: u64) -> String {
    event.replacen(PLACEHOLDER, &marker(change), 1)
}

/// What a client looks for in the text of a change.
pub(crate) fn marker(change: u64) -> String {
    format!("\"serving\":{change},")
}

/// Accepts so many connections, answers each with the event in a file, then sends a changed one to all for every line it reads.
pub(crate) fn serve(event_file: &str, connections: &str) -> Result<()> {
    let event = std::fs::read_to_string(event_file)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("listening on {}", listener.local_addr()?);
    let mut sockets: Vec<TcpStream> = Vec::new();
    let greeting =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{event}");
    while sockets.len() < connections.parse()? {
        let (mut socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        let mut request = [0; 1_024];
        anyhow::ensure!(socket.read(&mut request)? > 0, "a client left");
        socket.write_all(greeting.as_bytes())?;
        sockets.push(socket);
    }
    for line in std::io::stdin().lock().lines() {
        let text = change_text(&event, line?.trim().parse().context("the number of a change")?);
        for socket in &mut sockets {
            socket.write_all(text.as_bytes())?;
        }
    }
    Ok(())
}
