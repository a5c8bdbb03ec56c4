//! The scenarios: faults of the server and the load that measures it.

/// A server with faults, and the load that measures it.
pub struct Scenario {
    /// Name on the command line and in the table.
    pub name: &'static str,
    /// Description for the user: behaviour of the server and load.
    pub what: &'static str,
    /// Approximate duration, in seconds.
    pub seconds: u32,
    /// Faults of the server, in the syntax of `plimsoll serve --inject`.
    pub(super) inject: &'static str,
    /// Load and duration of the measured phase, in the syntax of an experiment file.
    pub(super) load: &'static str,
    /// Connections to open before the measurement: the in-flight limit of the load.
    pub(super) connections: u32,
    /// Allowed error as a share of the true value (0 to 1).
    pub(super) allowed_share: f64,
    /// True if the start lag has a true value: every operation finds a free connection.
    pub(super) compares_start_lag: bool,
}

/// All scenarios, in the order in which they run.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "floor",
        what: "a server that answers immediately, 5,000/s",
        seconds: 13,
        inject: "latency=0",
        load: "rate = '5000/s'\nin_flight = 64\nduration = '10s'",
        connections: 64,
        allowed_share: 0.01,
        compares_start_lag: true,
    },
    Scenario {
        name: "constant",
        what: "constant 5 ms, 500/s",
        seconds: 25,
        inject: "latency=5ms",
        load: "rate = '500/s'\nduration = '22s'",
        connections: 1024,
        allowed_share: 0.01,
        compares_start_lag: true,
    },
    Scenario {
        name: "lognormal",
        what: "lognormal latency with median 5 ms and sigma 0.8, 500/s Poisson",
        seconds: 25,
        inject: "latency=lognormal(5ms;0.8)",
        load: "rate = '500/s'\narrival = 'poisson'\nduration = '22s'",
        connections: 1024,
        allowed_share: 0.01,
        compares_start_lag: false,
    },
    Scenario {
        name: "stall",
        what: "5 ms with a stall of 1 s every 10 s, 500/s",
        seconds: 36,
        inject: "latency=5ms,stall=1s/10s",
        load: "rate = '500/s'\nduration = '35s'",
        connections: 1024,
        allowed_share: 0.01,
        compares_start_lag: false,
    },
    Scenario {
        name: "slow-stretch",
        what: "5 ms, but 100 ms for 10 s, 16 in flight for 50 s",
        seconds: 53,
        inject: "latency=5ms,slow=100ms@22s+10s",
        load: "concurrency = 16\nduration = '50s'",
        connections: 16,
        allowed_share: 0.01,
        compares_start_lag: false,
    },
    Scenario {
        name: "saturation",
        what: "a server limited to 400/s, 500/s offered",
        seconds: 20,
        inject: "capacity=400/s",
        load: "rate = '500/s'\nduration = '12s'\ndrain = '1s'",
        connections: 1024,
        allowed_share: 0.01,
        compares_start_lag: false,
    },
    Scenario {
        name: "busy-client",
        what: "a server that answers immediately, 64 in flight: the client uses all of its CPU",
        seconds: 15,
        inject: "latency=0",
        load: "concurrency = 64\nduration = '12s'",
        connections: 64,
        allowed_share: 0.05,
        compares_start_lag: false,
    },
];
