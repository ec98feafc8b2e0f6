//! The part of a room that moves its frontier, as bytes: timetable, adaptive law, reports, auction, alarms, estimates.

use anteroom_core::auction::ROUND_WINNERS_MAX;
use anteroom_core::forecast::{Note, WIDTH_MAX_THOUSANDTHS, WIDTH_MIN_THOUSANDTHS};
use anteroom_core::reports::Issue;
use anteroom_core::{
    Adaptive, Adjustment, Auction, Forecast, FrontierMove, Generation, MovedBy, Position, Report, Reporter,
    Reports, Room, SessionKey, UnixMillis,
};

use super::{Corrupt, Reader, Writer};

impl Writer {
    fn numbers(&mut self, values: &[u64]) {
        for &value in values {
            self.number(value);
        }
    }

    fn optional(&mut self, value: Option<u64>) {
        self.byte(u8::from(value.is_some()));
        if let Some(value) = value {
            self.number(value);
        }
    }

    fn optional_text(&mut self, value: Option<&str>) {
        self.byte(u8::from(value.is_some()));
        if let Some(value) = value {
            self.bytes(value.as_bytes());
        }
    }

    fn key(&mut self, key: SessionKey) {
        self.generation(key.generation);
        self.number(key.position.get());
    }
}

impl Reader<'_> {
    fn flag(&mut self) -> Result<bool, Corrupt> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Corrupt(self.what)),
        }
    }

    fn optional(&mut self) -> Result<Option<u64>, Corrupt> {
        if self.flag()? { Ok(Some(self.number()?)) } else { Ok(None) }
    }

    fn optional_share(&mut self) -> Result<Option<u32>, Corrupt> {
        let share = self.optional()?.map(u32::try_from).transpose();
        share.map_err(|_| Corrupt(self.what))
    }

    fn optional_text(&mut self) -> Result<Option<String>, Corrupt> {
        if self.flag()? { Ok(Some(self.text()?)) } else { Ok(None) }
    }

    fn moment(&mut self) -> Result<UnixMillis, Corrupt> {
        Ok(UnixMillis(self.number()?))
    }

    fn key(&mut self) -> Result<SessionKey, Corrupt> {
        let generation: Generation = self.generation()?;
        let position = Position::new(self.number()?).ok_or(Corrupt(self.what))?;
        Ok(SessionKey { generation, position })
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T, Corrupt>) -> Result<Vec<T>, Corrupt> {
        (0..self.length()?).map(|_| item(self)).collect()
    }
}

pub(super) fn encode(writer: &mut Writer, room: &Room) {
    room.segments.iter().for_each(|segment| writer.number(segment.won));
    writer.optional(room.next_step_at.map(|at| at.0));
    writer.number(room.steps_missed);
    writer.number(room.windows.len() as u64);
    room.windows.iter().for_each(|at| writer.number(at.0));
    writer.number(room.rate_budget);
    writer.byte(u8::from(room.adaptive.is_some()));
    if let Some(adaptive) = &room.adaptive {
        writer.number(adaptive.capacity);
        writer.number(adaptive.adjusted_at.0);
        writer.byte(adaptive.adjustment as u8);
        writer.optional(adaptive.worst_latency_millis);
        writer.optional(adaptive.worst_errors_per_million.map(u64::from));
    }
    encode_reports(writer, &room.reports);
    writer.byte(u8::from(room.auction.is_some()));
    if let Some(auction) = &room.auction {
        encode_auction(writer, auction);
    }
    writer.number(room.firing.len() as u64);
    room.firing.iter().for_each(|name| writer.bytes(name.as_bytes()));
    writer.optional_text(room.stopped_by.as_deref());
    writer.byte(u8::from(room.last_move.is_some()));
    if let Some(moved) = &room.last_move {
        writer.byte(moved.by as u8);
        writer.numbers(&[moved.at.0, moved.from, moved.to]);
    }
    writer.number(room.moves.len() as u64);
    room.moves.iter().for_each(|&moves| writer.number(moves));
    encode_forecast(writer, &room.forecast);
}

fn encode_reports(writer: &mut Writer, reports: &Reports) {
    writer.number(reports.reporters.len() as u64);
    for reporter in &reports.reporters {
        let Report {
            reporter: name,
            sequence,
            free,
            entered,
            latency_p95_millis,
            errors_per_million,
            in_flight,
        } = &reporter.last;
        writer.bytes(name.as_bytes());
        let errors = errors_per_million.map(u64::from);
        for value in [*sequence, *free, *entered, *latency_p95_millis, errors, *in_flight] {
            writer.optional(value);
        }
        writer.number(reporter.heard_at.0);
    }
    writer.numbers(&[reports.issued, reports.entered, reports.unused]);
    writer.number(reports.recent.len() as u64);
    for issue in &reports.recent {
        writer.number(issue.at.0);
        writer.number(issue.issued);
    }
}

fn encode_auction(writer: &mut Writer, auction: &Auction) {
    let Auction { round, free, spare, settled, wins, won_at, average_thousandths, collected: _ } = auction;
    writer.numbers(&[round.0, *free, *spare, settled.0, won_at.0]);
    writer.optional(*average_thousandths);
    writer.number(wins.len() as u64);
    for key in wins {
        writer.key(*key);
    }
}

fn encode_forecast(writer: &mut Writer, forecast: &Forecast) {
    let width = u64::from(forecast.width_thousandths);
    writer.numbers(&[forecast.checked, forecast.within_p90, forecast.next_note_at.0, width]);
    writer.number(forecast.quotients.len() as u64);
    forecast.quotients.iter().for_each(|&quotient| writer.number(u64::from(quotient)));
    writer.number(forecast.notes.len() as u64);
    for note in &forecast.notes {
        writer.generation(note.generation);
        writer.numbers(&[note.position, note.made_at.0, note.p50_millis, note.p90_millis]);
    }
}

pub(super) fn decode(reader: &mut Reader<'_>, room: &mut Room) -> Result<(), Corrupt> {
    for segment in &mut room.segments {
        segment.won = reader.number()?;
    }
    room.next_step_at = reader.optional()?.map(UnixMillis);
    room.steps_missed = reader.number()?;
    room.windows = reader.list(Reader::moment)?.into();
    room.rate_budget = reader.number()?;
    room.adaptive = if reader.flag()? {
        let (capacity, adjusted_at) = (reader.number()?, reader.moment()?);
        let adjustment = Adjustment::ALL.get(usize::from(reader.byte()?)).ok_or(Corrupt("room"))?;
        let worst_latency_millis = reader.optional()?;
        let worst_errors_per_million = reader.optional_share()?;
        Some(Adaptive {
            capacity,
            adjusted_at,
            adjustment: *adjustment,
            worst_latency_millis,
            worst_errors_per_million,
        })
    } else {
        None
    };
    *room.reports = decode_reports(reader)?;
    room.auction = if reader.flag()? { Some(decode_auction(reader)?.into()) } else { None };
    room.firing = reader.list(Reader::text)?;
    room.stopped_by = reader.optional_text()?;
    room.last_move = if reader.flag()? {
        let by = *MovedBy::ALL.get(usize::from(reader.byte()?)).ok_or(Corrupt("room"))?;
        Some(FrontierMove { by, at: reader.moment()?, from: reader.number()?, to: reader.number()? })
    } else {
        None
    };
    room.moves = reader.list(Reader::number)?.try_into().map_err(|_| Corrupt("room"))?;
    *room.forecast = decode_forecast(reader)?;
    Ok(())
}

fn decode_reports(reader: &mut Reader<'_>) -> Result<Reports, Corrupt> {
    let reporters = reader.list(|reader| {
        let last = Report {
            reporter: reader.text()?,
            sequence: reader.optional()?,
            free: reader.optional()?,
            entered: reader.optional()?,
            latency_p95_millis: reader.optional()?,
            errors_per_million: reader.optional_share()?,
            in_flight: reader.optional()?,
        };
        Ok(Reporter { last, heard_at: reader.moment()? })
    })?;
    let [issued, entered, unused] = [reader.number()?, reader.number()?, reader.number()?];
    let recent = reader.list(|reader| Ok(Issue { at: reader.moment()?, issued: reader.number()? }))?;
    if recent.iter().any(|issue| issue.issued > issued) || entered.checked_add(unused).is_none() {
        return Err(Corrupt("room"));
    }
    Ok(Reports { reporters, issued, recent: recent.into(), entered, unused })
}

fn decode_auction(reader: &mut Reader<'_>) -> Result<Auction, Corrupt> {
    let [round, free, spare] = [reader.number()?, reader.number()?, reader.number()?];
    let (settled, won_at) = (reader.moment()?, reader.moment()?);
    let average_thousandths = reader.optional()?;
    let wins = reader.list(Reader::key)?;
    if free > ROUND_WINNERS_MAX
        || spare > free
        || average_thousandths.is_some_and(|of| of > ROUND_WINNERS_MAX * 1000)
    {
        return Err(Corrupt("room"));
    }
    Ok(Auction {
        round: UnixMillis(round),
        free,
        spare,
        settled,
        wins: wins.into_iter().collect(),
        won_at,
        average_thousandths,
        collected: None,
    })
}

fn decode_forecast(reader: &mut Reader<'_>) -> Result<Forecast, Corrupt> {
    let (checked, within_p90, next_note_at) = (reader.number()?, reader.number()?, reader.moment()?);
    let width_thousandths = u32::try_from(reader.number()?).map_err(|_| Corrupt("room"))?;
    if !(WIDTH_MIN_THOUSANDTHS..=WIDTH_MAX_THOUSANDTHS).contains(&width_thousandths) {
        return Err(Corrupt("room"));
    }
    let quotients =
        reader.list(|reader| u32::try_from(reader.number()?).map_err(|_| Corrupt("room")))?.into();
    let notes = reader
        .list(|reader| {
            Ok(Note {
                generation: reader.generation()?,
                position: reader.number()?,
                made_at: reader.moment()?,
                p50_millis: reader.number()?,
                p90_millis: reader.number()?,
            })
        })?
        .into();
    Ok(Forecast { notes, quotients, width_thousandths, checked, within_p90, next_note_at })
}
