//! Draws the live view: title and progress, current figures, throughput and latency of the last minutes, a heat strip
//! of latencies, failures, the client and notes. Narrow or low terminals show fewer parts.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Borders, Chart, Dataset, GraphType, LineGauge, Paragraph, Wrap};

use super::model::{CLASSES, KEPT, Model, Second, edge_ms};
use plimsoll_base::clock::{SECOND, now_ns};
use plimsoll_base::units::{format_count, format_ms, format_per_s, format_throughput};

/// Minimum length of the time axis, in seconds.
const SHORTEST: u64 = 60;
/// Shades of the heat strip, from few to many operations, and their colours of the 256-colour palette: from dark blue
/// to light yellow, so that both the shade and the colour rise.
const SHADES: [(&str, Color); 5] = [
    ("░", Color::Indexed(24)),
    ("░", Color::Indexed(31)),
    ("▒", Color::Indexed(37)),
    ("▓", Color::Indexed(179)),
    ("█", Color::Indexed(229)),
];
/// Width of the labels of an axis.
const LABELS: u16 = 9;

/// Draws the whole view.
pub fn draw(frame: &mut Frame<'_>, model: &Model) {
    let area = frame.area();
    let [title, gauge, now, charts, heat, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(4),
        Constraint::Fill(3),
        Constraint::Length(if area.height < 16 { 0 } else { area.height / 4 }),
    ])
    .areas(area);
    head(frame, model, title, gauge);
    frame.render_widget(Paragraph::new(figures(model)), now);
    let span = TimeAxis::of(model);
    if charts.height >= 4 {
        let [left, right] =
            Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(1).areas(charts);
        throughput(frame, model, &span, left);
        latency(frame, model, &span, right);
    }
    if heat.height >= 3 {
        strip(frame, model, &span, heat);
    }
    if bottom.height >= 3 {
        let thirds = [Constraint::Fill(2), Constraint::Fill(2), Constraint::Fill(3)];
        let [failures, client, notes] = Layout::horizontal(thirds).spacing(1).areas(bottom);
        frame.render_widget(panel("failures", failures_of(model)), failures);
        frame.render_widget(panel("client", client_of(model)), client);
        let rows = usize::from(notes.height.saturating_sub(1));
        let skipped = model.notes.len().saturating_sub(rows);
        let lines =
            model.notes.iter().skip(skipped).map(|note| Line::from(note.trim().to_string())).collect();
        frame.render_widget(panel("notes", lines).wrap(Wrap { trim: true }), notes);
    }
}

/// Time axis of all charts, in seconds of the run.
struct TimeAxis {
    first: u64,
    last: u64,
}

impl TimeAxis {
    /// Returns the kept seconds, at least [`SHORTEST`].
    fn of(model: &Model) -> TimeAxis {
        let last = model.seconds.back().map_or(0, |s| s.second);
        let first = model.seconds.front().map_or(0, |s| s.second);
        let length = (last - first + 1).clamp(SHORTEST, KEPT as u64);
        TimeAxis { first: (last + 1).saturating_sub(length), last: last.max(length - 1) }
    }

    fn length(&self) -> u64 {
        self.last - self.first + 1
    }

    fn bounds(&self) -> [f64; 2] {
        [self.first as f64, self.last as f64]
    }

    fn axis(&self) -> Axis<'static> {
        let labels = [minutes(self.first), minutes(self.last)];
        Axis::default().bounds(self.bounds()).labels(labels).style(soft())
    }
}

/// Formats seconds as minutes and seconds, such as `1:05`.
fn minutes(seconds: u64) -> String {
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

fn soft() -> Style {
    Style::new().fg(Color::DarkGray)
}

fn block(title: &str) -> Block<'static> {
    let title = Line::from(format!(" {title} ")).style(Style::new().add_modifier(Modifier::BOLD));
    Block::new().borders(Borders::TOP).border_style(soft()).title(title)
}

fn panel(title: &str, lines: Vec<Line<'static>>) -> Paragraph<'static> {
    Paragraph::new(lines).block(block(title))
}

fn head(frame: &mut Frame<'_>, model: &Model, title: Rect, gauge: Rect) {
    let left = model.total_ns.saturating_sub(model.passed_ns).div_ceil(SECOND);
    let state = match (model.stopping, model.total_ns) {
        (true, _) => "stopping; results are kept".to_string(),
        (false, 0) => "press q to stop".to_string(),
        (false, _) => format!("{} left, press q to stop", minutes(left)),
    };
    let [name, right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(state.chars().count() as u16)])
            .areas(title);
    let stores = if model.stores.len() == 1 { format!(" on {}", model.stores[0]) } else { String::new() };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Paragraph::new(Span::styled(format!("{}{stores}", model.title), bold)), name);
    frame.render_widget(Paragraph::new(Span::styled(state, soft())), right);
    let ratio = match model.total_ns {
        0 => 0.0,
        total => (model.passed_ns as f64 / total as f64).clamp(0.0, 1.0),
    };
    let line = LineGauge::default()
        .ratio(ratio)
        .filled_symbol("━")
        .filled_style(Style::new().fg(Color::Cyan))
        .unfilled_style(soft());
    frame.render_widget(line, gauge);
}

/// Returns the line of current figures.
fn figures(model: &Model) -> Line<'static> {
    let Some(now) = model.current(now_ns()) else { return Line::from("no operation has ended yet") };
    let ms = |value: Option<f64>| value.map_or("-".into(), format_ms);
    let [p50, p99, p999] = now.percentiles_ms.map(ms);
    let failed: u64 = model.errors.values().sum();
    let mut text = format!("{}/s", format_per_s(now.per_s));
    if now.bytes_per_s > 0.0 {
        text.push_str(&format!("  {}", format_throughput(now.bytes_per_s)));
    }
    text.push_str(&format!("  p50 {p50}  p99 {p99}  p99.9 {p999} ms"));
    let failures = match failed {
        0 => Span::styled("  0 failed", soft()),
        n => Span::styled(format!("  {} failed", format_count(n)), Style::new().fg(Color::Red)),
    };
    Line::from(vec![Span::raw(text), failures])
}

fn throughput(frame: &mut Frame<'_>, model: &Model, span: &TimeAxis, area: Rect) {
    let points = points(model, |second| Some(second.completed as f64));
    let top = points.iter().map(|(_, y)| *y).fold(1.0, f64::max) * 1.05;
    let labels = ["0".to_string(), format_per_s(top / 2.0), format_per_s(top)];
    let data = Dataset::default()
        .marker(Marker::Braille)
        .graph_type(GraphType::Line)
        .style(Style::new().fg(Color::Cyan))
        .data(&points);
    let y = Axis::default().bounds([0.0, top]).labels(padded(labels)).style(soft());
    frame.render_widget(
        Chart::new(vec![data]).block(block("operations/s")).x_axis(span.axis()).y_axis(y),
        area,
    );
}

fn latency(frame: &mut Frame<'_>, model: &Model, span: &TimeAxis, area: Rect) {
    let log = |value: Option<f64>| value.filter(|ms| *ms > 0.0).map(f64::log10);
    let (p50, p99) = (points(model, |s| log(s.p50_ms)), points(model, |s| log(s.p99_ms)));
    let all = || p50.iter().chain(&p99).map(|(_, y)| *y);
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let (low, high) = if low.is_finite() { (low - 0.1, high + 0.1) } else { (-1.0, 1.0) };
    let labels = [low, f64::midpoint(low, high), high].map(|y| format_ms(10f64.powf(y)));
    let line = |points, color| {
        let line = Dataset::default().marker(Marker::Braille).graph_type(GraphType::Line);
        line.style(Style::new().fg(color)).data(points)
    };
    let title = Line::from(vec![
        Span::styled(" p50", Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD)),
        Span::raw(" and "),
        Span::styled("p99", Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD)),
        Span::raw(" in ms "),
    ]);
    let block = Block::new().borders(Borders::TOP).border_style(soft()).title(title);
    let y = Axis::default().bounds([low, high]).labels(padded(labels)).style(soft());
    let lines = vec![line(&p99, Color::Yellow), line(&p50, Color::Cyan)];
    frame.render_widget(Chart::new(lines).block(block).x_axis(span.axis()).y_axis(y), area);
}

/// Pads the labels of a vertical axis to one width, so that the charts do not move when figures change.
fn padded(labels: [String; 3]) -> Vec<Line<'static>> {
    labels
        .into_iter()
        .map(|label| Line::from(format!("{label:>width$}", width = LABELS as usize - 2)))
        .collect()
}

/// Returns the points of a chart: the second of the run, and a value.
fn points(model: &Model, value: impl Fn(&Second) -> Option<f64>) -> Vec<(f64, f64)> {
    let point = |second: &Second| value(second).map(|y| (second.second as f64, y));
    model.seconds.iter().filter_map(point).collect()
}

/// Draws the heat strip: a column per time, a row per range of latencies; brighter cells have more of the operations of
/// their column.
fn strip(frame: &mut Frame<'_>, model: &Model, span: &TimeAxis, area: Rect) {
    let block = block("share of operations by latency in ms");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let used = || model.seconds.iter().flat_map(|s| s.heat.iter().map(|(class, _)| *class));
    let (Some(low), Some(high)) = (used().min(), used().max()) else { return };
    let (rows, columns) = (usize::from(inner.height), usize::from(inner.width.saturating_sub(LABELS)));
    if rows == 0 || columns == 0 {
        return;
    }
    let per_row = (high - low + 1).div_ceil(rows).max(1);
    // A column covers several seconds, or a second covers several columns.
    let first_of = |column: usize| span.first + (column as u64 * span.length()) / columns as u64;
    let column = |column: usize| {
        let seconds = first_of(column)..first_of(column + 1).max(first_of(column) + 1);
        let mut counts = vec![0u64; rows];
        for second in model.seconds.iter().filter(|s| seconds.contains(&s.second)) {
            second.heat.iter().for_each(|(class, n)| counts[((class - low) / per_row).min(rows - 1)] += n);
        }
        counts
    };
    let counts: Vec<Vec<u64>> = (0..columns).map(column).collect();
    let lines = (0..rows).rev().map(|row| {
        let shown = row * per_row + low <= high.min(CLASSES - 1);
        let label = if shown { format_ms(edge_ms(low + row * per_row)) } else { String::new() };
        let label = Span::styled(format!("{label:>width$}  ", width = LABELS as usize - 2), soft());
        let cells = counts.iter().map(|column| shade(column[row], column.iter().sum()));
        Line::from(std::iter::once(label).chain(cells).collect::<Vec<_>>())
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), inner);
}

/// Returns the cell for `n` of `total` operations: each shade is three times as many operations as the one before.
fn shade(n: u64, total: u64) -> Span<'static> {
    if n == 0 {
        return Span::raw(" ");
    }
    let share = n as f64 / total as f64;
    let level = [0.6, 0.2, 0.06, 0.02].iter().position(|edge| share >= *edge).unwrap_or(4);
    let (text, color) = SHADES[SHADES.len() - 1 - level];
    Span::styled(text, Style::new().fg(color))
}

fn failures_of(model: &Model) -> Vec<Line<'static>> {
    if model.errors.is_empty() {
        return vec![Line::from(Span::styled("none", soft()))];
    }
    let all = model.completed + model.errors.values().sum::<u64>();
    let mut classes: Vec<(&String, &u64)> = model.errors.iter().collect();
    classes.sort_by(|a, b| b.1.cmp(a.1));
    let line = |(class, n): (&String, &u64)| {
        let share = 100.0 * *n as f64 / all.max(1) as f64;
        Line::from(format!("{class} {} ({share:.2}%)", format_count(*n))).style(Style::new().fg(Color::Red))
    };
    classes.into_iter().map(line).collect()
}

fn client_of(model: &Model) -> Vec<Line<'static>> {
    let client = &model.client;
    let mut lines = vec![Line::from(format!("CPU {:.2} cores", client.cores))];
    if let Some(lag) = client.start_lag_ms {
        lines.push(Line::from(format!("start lag p99 {} ms", format_ms(lag))));
    }
    if let Some((name, share)) = &client.link {
        lines.push(Line::from(format!("link {name} {:.0}%", share * 100.0)));
    }
    if let Some(spent) = &model.spent {
        let limit = model.limit.as_ref().map_or(String::new(), |limit| format!(" of {limit}"));
        lines.push(Line::from(format!("cost {spent}{limit}")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use plimsoll_recorder::collector::SecondRow;
    use plimsoll_recorder::latency::Latency;
    use plimsoll_recorder::tally::Tally;

    /// Returns a model after `seconds` seconds with 100 operations of 1 ms and one failure each.
    fn model(seconds: u64) -> Model {
        let mut model = Model::new(None);
        model.total_ns = 100 * SECOND;
        model.stores = vec!["s3://bucket".into()];
        model.title = "get".into();
        for second in 0..seconds {
            let mut tally = Tally { completed: 100, bytes: 102_400.0, ..Tally::default() };
            (0..100).for_each(|_| tally.latencies[Latency::Service].record(1_000_000));
            tally.errors.insert("throttled".into(), 1);
            model.second(&SecondRow { second, phase: 0, kind: Default::default(), tally: &tally });
        }
        model
    }

    fn screen(model: &Model, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, model)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn every_part_is_visible_at_80x24_and_at_200x60() {
        let model = model(90);
        for (width, height) in [(80, 24), (200, 60)] {
            let text = screen(&model, width, height);
            for part in [
                "get on s3://bucket",
                "1:40 left, press q to stop",
                "100/s  0.10 MB/s  p50 1.00  p99 1.00",
                "90 failed",
                "operations/s",
                "p50 and p99 in ms",
                "share of operations by latency",
                "throttled 90 (0.99%)",
                "CPU 0.00 cores",
                "notes",
                "█",
            ] {
                assert!(text.contains(part), "{part} is missing at {width}x{height}:\n{text}");
            }
        }
    }

    #[test]
    fn any_size_and_any_state_can_be_drawn() {
        for seconds in [0, 1, 400] {
            let mut model = model(seconds);
            model.note("note\u{1b}[2J with a control sequence");
            for (width, height) in [(1, 1), (10, 3), (20, 5), (40, 15), (80, 24), (300, 100)] {
                let text = screen(&model, width, height);
                assert!(!text.contains('\u{1b}'), "{width}x{height}");
            }
        }
    }

    #[test]
    fn old_seconds_are_dropped_and_current_figures_cover_the_last_five() {
        let mut model = model(400);
        assert_eq!(model.seconds.len(), KEPT);
        assert_eq!(model.errors["throttled"], 400);
        let mut tally = Tally { completed: 600, ..Tally::default() };
        tally.latencies[Latency::Service].record(9_000_000);
        model.second(&SecondRow { second: 400, phase: 0, kind: Default::default(), tally: &tally });
        assert_eq!(model.current(0).unwrap().per_s, 200.0);
        // A store that does not answer any more has no throughput.
        assert_eq!(model.current(u64::MAX).unwrap().per_s, 0.0);
    }
}
