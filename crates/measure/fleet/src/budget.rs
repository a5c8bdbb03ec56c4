//! The cost limit of a fleet. Each node starts with an equal share. A node that runs short asks the coordinator, which
//! asks the others to return a part of what they have not spent. Money is returned before it is granted, so the shares
//! never add up to more than the limit.

use super::message::Command;

/// Money that nodes have returned, and the node that needs it.
#[derive(Debug, Default)]
pub struct Pool {
    /// Returned and not granted, in picodollars.
    unused: u64,
    /// Node that asked last.
    short: Option<u64>,
}

impl Pool {
    /// Handles the request of a node that runs short: grants what is unused, and asks the others to return more.
    pub fn ask(&mut self, node: u64) -> Vec<Command> {
        self.short = Some(node);
        let mut commands: Vec<Command> = self.grant().into_iter().collect();
        commands.push(Command::ReturnBudget { except: node });
        commands
    }

    /// Handles the return of money.
    pub fn returned(&mut self, pico_usd: u64) -> Option<Command> {
        self.unused = self.unused.saturating_add(pico_usd);
        self.grant()
    }

    fn grant(&mut self) -> Option<Command> {
        let node = self.short.filter(|_| self.unused > 0)?;
        Some(Command::GrantBudget { node, pico_usd: std::mem::take(&mut self.unused) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returned_money_is_granted_once_to_the_node_that_asked() {
        let mut pool = Pool::default();
        assert_eq!(pool.returned(5), None, "nobody needs it yet");
        let commands = pool.ask(2);
        let granted = Command::GrantBudget { node: 2, pico_usd: 5 };
        assert_eq!(commands, [granted, Command::ReturnBudget { except: 2 }]);
        assert_eq!(pool.returned(7), Some(Command::GrantBudget { node: 2, pico_usd: 7 }));
        assert_eq!(pool.returned(0), None);
        assert_eq!(pool.ask(1), [Command::ReturnBudget { except: 1 }]);
    }
}
