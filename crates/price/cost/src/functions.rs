//! Functions that run on demand, such as Cloudflare Workers and AWS Lambda, and the quantities for which providers bill
//! them.

/// Functions that a workload invokes in a month.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Functions {
    /// Number of invocations.
    pub invocations: u64,
    /// CPU time of an invocation, in microseconds.
    pub cpu_us: u64,
    /// Duration of an invocation, in milliseconds: rounded up, as Lambda does.
    pub run_ms: u64,
    /// Memory of a function, in MiB.
    pub memory_mib: u64,
}

/// Part of the usage of functions that a meter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionMeasure {
    /// Number of invocations.
    Invocations,
    /// CPU time in microseconds.
    CpuTime,
    /// Memory multiplied by duration, in MiB milliseconds.
    MemoryTime,
    /// One monthly charge for the account.
    Subscription,
}

impl Functions {
    /// Returns the quantity that a meter counts.
    pub fn quantity(&self, measure: FunctionMeasure) -> u128 {
        let each = match measure {
            FunctionMeasure::Subscription => return u128::from(self.invocations > 0),
            FunctionMeasure::Invocations => 1,
            FunctionMeasure::CpuTime => u128::from(self.cpu_us),
            FunctionMeasure::MemoryTime => u128::from(self.run_ms) * u128::from(self.memory_mib),
        };
        u128::from(self.invocations).saturating_mul(each)
    }
}
