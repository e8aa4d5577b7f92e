//! `doorbell smi --watch`: a screen.

use std::collections::{BTreeMap, VecDeque};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use drivers::gauges::Gauges;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, LineGauge, Paragraph, Sparkline, Wrap};

use super::text::{memory, power, sensors, title, users};
use crate::program::error::Error;

/// Readings that are kept: as wide as screens mostly are.
const KEPT: usize = 200;

/// How busy each card was, the newest first, by its address.
type History = BTreeMap<String, VecDeque<u64>>;

/// Shows what `look` sees until somebody ends it.
pub fn watch(
    look: &dyn Fn() -> (Vec<Gauges>, Vec<String>),
    interval: Duration,
) -> Result<(), Error> {
    if !std::io::stdout().is_terminal() {
        return Err(Error::Usage(
            "smi --watch: stdout is not a terminal; omit --watch, or poll with --json".into(),
        ));
    }
    let mut terminal = ratatui::try_init().map_err(Error::Output)?;
    let mut history = History::new();
    let shown = loop {
        let (cards, notes) = look();
        remember(&mut history, &cards);
        let seen = (&cards[..], &notes[..]);
        if let Err(error) = terminal.draw(|frame| draw(frame, seen, &history, interval)) {
            break Err(error);
        }
        match ended(interval) {
            Ok(false) => {}
            other => break other.map(|_| ()),
        }
    };
    // Also where drawing failed: the terminal is somebody's.
    ratatui::try_restore().map_err(Error::Output)?;
    shown.map_err(Error::Output)
}

/// Waits for the next reading; whether a key was pressed that ends it.
fn ended(interval: Duration) -> std::io::Result<bool> {
    let end = Instant::now() + interval;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || !event::poll(left)? {
            return Ok(false);
        }
        match event::read()? {
            Event::Key(key) => {
                let control =
                    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
                if control || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                    return Ok(true);
                }
            }
            // Drawn again at once, in its new size.
            Event::Resize(..) => return Ok(false),
            _ => {}
        }
    }
}

fn remember(history: &mut History, cards: &[Gauges]) {
    for card in cards {
        let Some(busy) = card.busy else { continue };
        let all = history.entry(card.card.address.clone()).or_default();
        all.push_front(busy as u64);
        all.truncate(KEPT);
    }
}

fn draw(
    frame: &mut Frame<'_>,
    (cards, notes): (&[Gauges], &[String]),
    history: &History,
    interval: Duration,
) {
    let heights = cards
        .iter()
        .map(|card| Constraint::Length(6 + users(card).len() as u16));
    // Notes are cut where there is no room for all.
    let heights = heights.chain([Constraint::Fill(1), Constraint::Length(1)]);
    let areas = Layout::vertical(heights).split(frame.area());
    for (card, area) in cards.iter().zip(areas.iter()) {
        one(frame, *area, card, history);
    }
    if let [.., rest, last] = *areas {
        let none = "no AMD or NVIDIA GPU on the bus; see doorbell doctor";
        let lines = cards.is_empty().then_some(none).into_iter();
        let lines: Vec<_> = lines
            .chain(notes.iter().map(String::as_str))
            .map(Line::from)
            .collect();
        frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), rest);
        let text = format!(" every {:.1} s; q quits", interval.as_secs_f64());
        frame.render_widget(Paragraph::new(text).dark_gray(), last);
    }
}

/// One card: gauges, the last minutes, who has it.
fn one(frame: &mut Frame<'_>, area: Rect, card: &Gauges, history: &History) {
    let block = Block::bordered().title(Line::from(format!(" {} ", title(card))).bold());
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let [memory_at, power_at, busy_at, sensors_at, users_at] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
    ])
    .areas(inside);
    let part =
        |used: Option<f64>, total: Option<f64>| Some(used? / total.filter(|total| *total > 0.0)?);
    let used = part(
        card.memory_used.map(|b| b as f64),
        card.memory_total.map(|b| b as f64),
    );
    gauge(frame, memory_at, "memory", memory(card), used);
    gauge(
        frame,
        power_at,
        "power",
        power(card),
        part(card.watts, card.watts_most),
    );

    let [label_at, line_at] =
        Layout::horizontal([Constraint::Length(28), Constraint::Fill(1)]).areas(busy_at);
    let busy = card.busy.map_or("?".into(), |busy| format!("{busy:.0} %"));
    frame.render_widget(Paragraph::new(format!("busy    {busy}")), label_at);
    if let Some(all) = history.get(&card.card.address) {
        let line = Sparkline::default()
            .data(all.iter().copied())
            .max(100)
            .style(Color::Cyan);
        frame.render_widget(line, line_at);
    }
    let sensors = match sensors(card) {
        all if all.is_empty() => "sensors none".into(),
        all => format!("sensors {}", all.join(", ")),
    };
    frame.render_widget(Paragraph::new(sensors), sensors_at);
    let lines: Vec<_> = users(card).into_iter().map(Line::from).collect();
    frame.render_widget(Paragraph::new(Text::from(lines)).yellow(), users_at);
}

/// A named value, and how full that is where it is known.
fn gauge(frame: &mut Frame<'_>, area: Rect, name: &str, text: Option<String>, part: Option<f64>) {
    let text = format!("{name:<7} {}", text.unwrap_or_else(|| "?".into()));
    let [label_at, line_at] =
        Layout::horizontal([Constraint::Length(28), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Paragraph::new(text), label_at);
    let Some(part) = part else { return };
    let colour = match part {
        part if part > 0.9 => Color::Red,
        part if part > 0.7 => Color::Yellow,
        _ => Color::Green,
    };
    let line = LineGauge::default()
        .ratio(part.clamp(0.0, 1.0))
        .label("")
        .filled_style(Style::new().fg(colour))
        .unfilled_style(Style::new().fg(Color::DarkGray));
    frame.render_widget(line, line_at);
}

#[cfg(test)]
mod tests {
    use drivers::OnBus;
    use drivers::gauges::{User, Way};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn screen((cards, notes): (&[Gauges], &[String]), history: &History) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(80, 12)).unwrap();
        let every = Duration::from_secs(1);
        terminal
            .draw(|frame| draw(frame, (cards, notes), history, every))
            .unwrap();
        let buffer = terminal.backend().buffer();
        let cells: Vec<_> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        cells.chunks(80).map(|row| row.concat()).collect()
    }

    #[test]
    fn a_screen_has_each_card_and_its_users() {
        let card = Gauges {
            card: OnBus {
                address: "0000:03:00.0".into(),
                id: "1002:744c".into(),
                driver: Some("amdgpu".into()),
                arch: Some("gfx1100"),
                name: "AMD Navi 31".into(),
            },
            way: Way::Pci,
            asleep: false,
            model: None,
            memory_used: Some(12 << 30),
            memory_total: Some(24 << 30),
            busy: Some(50.0),
            celsius: Some(61.0),
            watts: Some(320.0),
            watts_most: Some(339.0),
            core_mhz: Some(2371.0),
            memory_mhz: None,
            fan_rpm: None,
            link: Some("16.0 GT/s x16".into()),
            users: vec![User {
                pid: 4711,
                command: "python3 train.py".into(),
                memory: Some(1 << 30),
                queues: Some(2),
            }],
            users_known: true,
        };
        let mut history = History::new();
        remember(&mut history, std::slice::from_ref(&card));
        let notes = ["0000:0a:00.0: permission denied".to_owned()];
        let rows = screen((std::slice::from_ref(&card), &notes), &history);
        for (row, text) in [
            (
                0,
                "┌ 0000:03:00.0 AMD Navi 31 (gfx1100), driver amdgpu, 16.0 GT/s x16 ",
            ),
            (1, "│memory  12.0 of 24.0 GiB"),
            (2, "│power   320 of 339 W"),
            (3, "│busy    50 %                ▄"),
            (4, "│sensors 61 °C, core 2371 MHz"),
            (5, "│   4711 1.0 GiB, 2 queues    python3 train.py"),
            (7, "0000:0a:00.0: permission denied"),
            (11, " every 1.0 s; q quits"),
        ] {
            assert!(rows[row].starts_with(text), "{row}: {rows:#?}");
        }
        let none = screen((&[], &[]), &history);
        assert!(none[0].starts_with("no AMD or NVIDIA GPU"), "{none:#?}");
        // Readings that nobody sees any more go.
        for _ in 0..2 * KEPT {
            remember(&mut history, std::slice::from_ref(&card));
        }
        assert_eq!(history["0000:03:00.0"].len(), KEPT);
    }
}
