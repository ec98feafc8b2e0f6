//! Server-sent events, as much of them as the live stream uses: names and data.

/// The largest event that is kept, in bytes; a longer one is dropped.
const EVENT_MAX_BYTES: usize = 256 * 1024;

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) data: String,
}

/// Takes bytes as they come and gives whole events.
#[derive(Debug, Default)]
pub(super) struct Events {
    buffer: Vec<u8>,
}

impl Events {
    /// More bytes have come.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if self.buffer.len() + bytes.len() > EVENT_MAX_BYTES {
            self.buffer.clear();
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next event that is complete. What has no data (comments, `retry:`) is no event.
    pub(super) fn next(&mut self) -> Option<Event> {
        loop {
            let end = self.buffer.windows(2).position(|pair| pair == b"\n\n")?;
            let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
            if let Some(event) = parse(&String::from_utf8_lossy(&block)) {
                return Some(event);
            }
        }
    }
}

fn parse(block: &str) -> Option<Event> {
    let mut name = "message".to_owned();
    let mut data: Option<String> = None;
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut name),
            "data" => match &mut data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => data = Some(value.to_owned()),
            },
            _ => {}
        }
    }
    data.map(|data| Event { name, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_out_whole_however_the_bytes_come_in() {
        let stream = b"retry: 3000\n\n: alive\n\nevent: board\nid: 7\ndata: {\"a\":\ndata: 1}\n\ndata: x\n\nevent: cut";
        for size in 1..stream.len() {
            let mut events = Events::default();
            let mut found = Vec::new();
            for piece in stream.chunks(size) {
                events.feed(piece);
                found.extend(std::iter::from_fn(|| events.next()));
            }
            let expected = [("board", "{\"a\":\n1}"), ("message", "x")];
            let expected = expected.map(|(name, data)| Event { name: name.into(), data: data.into() });
            assert_eq!(found, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn a_stream_without_an_end_is_not_kept() {
        let mut events = Events::default();
        for _ in 0..1000 {
            events.feed(&[b'x'; 1024]);
            assert!(events.buffer.len() <= EVENT_MAX_BYTES);
        }
    }
}
