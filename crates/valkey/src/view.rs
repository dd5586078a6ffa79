//! What one node knows of its cluster: the answer to CLUSTER NODES, taken apart.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use tidefs_model::{NodeId, PARTITIONS};

use crate::once;
use crate::wire::{Malformed, Reply};

/// A node as another node (or itself) describes it; hearsay, and possibly old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewNode {
    pub id: NodeId,
    /// `None` where the node does not know its own address yet.
    pub address: Option<SocketAddr>,
    pub is_myself: bool,
    /// The connection for news between the nodes is up.
    pub is_linked: bool,
    /// Somebody takes it for dead.
    pub is_failing: bool,
    pub epoch: u64,
    pub slots: Vec<RangeInclusive<u16>>,
    /// It begins as the replica of a node that never was; see `cluster::plan`.
    pub replica_of: Option<NodeId>,
    /// Where other nodes reach it for news; 0 where that is not known.
    pub bus_port: u16,
    /// Slots on their way by key, which a node tells of itself alone.
    pub open: Vec<OpenSlot>,
}

/// A slot that a node gives away or takes in, key by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSlot {
    pub slot: u16,
    /// It goes to the other node; else it comes from there.
    pub leaves: bool,
    pub other: NodeId,
}

impl ViewNode {
    pub fn holds(&self, slot: u16) -> bool {
        self.slots.iter().any(|slots| slots.contains(&slot))
    }

    pub fn slot_count(&self) -> usize {
        self.slots.iter().map(|slots| slots.len()).sum()
    }
}

/// Whom a line of the table is about, as far as it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub id: NodeId,
    pub address: Option<SocketAddr>,
    /// As in [`ViewNode`].
    pub bus_port: u16,
}

/// What a node answers to CLUSTER NODES.
pub fn view_of(reply: &Reply) -> Result<Vec<ViewNode>, Malformed> {
    bytes_of(reply).map(parse_view)
}

/// All lines of that answer that name a node, also one that nobody has met yet.
pub fn rows_of(reply: &Reply) -> Result<Vec<Row>, Malformed> {
    bytes_of(reply).map(rows)
}

fn bytes_of(reply: &Reply) -> Result<&[u8], Malformed> {
    if let Reply::Bulk(bytes) = reply { Ok(bytes) } else { Err(Malformed::Unexpected) }
}

/// Reads the table of nodes. Nodes that nobody has met yet are left out. So is a line that is not
/// understood: a table has what strangers told the node, who may say anything.
pub fn parse_view(table: &[u8]) -> Vec<ViewNode> {
    let known = lines(table).filter(|line| {
        let flags = line.split(' ').nth(2).unwrap_or_default();
        !flags.split(',').any(|flag| flag == "handshake" || flag == "noaddr")
    });
    let read = known.filter_map(|line| match node(&line) {
        Ok(node) => Some(node),
        Err(_) => {
            once::tell(&line, || tracing::warn!(line, "a line of a table of nodes is left out"));
            None
        }
    });
    read.collect()
}

pub fn rows(table: &[u8]) -> Vec<Row> {
    let row = |line: String| {
        let mut words = line.split(' ');
        let id = words.next()?.parse().ok()?;
        let place = words.next().unwrap_or_default();
        Some(Row { id, address: address(place).ok().flatten(), bus_port: bus_port(place) })
    };
    lines(table).filter_map(row).collect()
}

fn lines(table: &[u8]) -> impl Iterator<Item = String> + '_ {
    let lines = table.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| String::from_utf8_lossy(line).into_owned())
}

/// `id address flags primary ping pong epoch link slot...`
fn node(line: &str) -> Result<ViewNode, Malformed> {
    let mut words = line.split(' ');
    let mut next = || words.next().ok_or(Malformed::Unexpected);
    let id = next()?.parse().map_err(|_| Malformed::Unexpected)?;
    let place = next()?;
    let (address, bus_port) = (address(place)?, bus_port(place));
    let flags = next()?;
    let is_myself = flags.split(',').any(|flag| flag == "myself");
    let is_failing = flags.split(',').any(|flag| flag == "fail" || flag == "fail?");
    let (primary, _ping, _pong) = (next()?, next()?, next()?);
    let replica_of = primary.parse().ok();
    let epoch = next()?.parse().map_err(|_| Malformed::Number)?;
    let is_linked = next()? == "connected";
    // Words in brackets name slots on their way.
    let (open, slots): (Vec<_>, Vec<_>) =
        words.filter(|word| !word.is_empty()).partition(|word| word.starts_with('['));
    let slots = slots.into_iter().map(slots_of).collect::<Result<_, _>>()?;
    let open = open.into_iter().map(open_slot).collect::<Result<_, _>>()?;
    Ok(ViewNode {
        id,
        address,
        is_myself,
        is_linked,
        is_failing,
        epoch,
        slots,
        replica_of,
        bus_port,
        open,
    })
}

/// `[slot->-id]` for a slot that leaves, `[slot-<-id]` for one that comes.
fn open_slot(word: &str) -> Result<OpenSlot, Malformed> {
    let inside = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
    let inside = inside.ok_or(Malformed::Unexpected)?;
    let (slot, other, leaves) = match (inside.split_once("->-"), inside.split_once("-<-")) {
        (Some((slot, other)), _) => (slot, other, true),
        (None, Some((slot, other))) => (slot, other, false),
        (None, None) => return Err(Malformed::Unexpected),
    };
    let slot = slot.parse().map_err(|_| Malformed::Number)?;
    let other = other.parse().map_err(|_| Malformed::Unexpected)?;
    if slot < PARTITIONS { Ok(OpenSlot { slot, leaves, other }) } else { Err(Malformed::Length) }
}

fn bus_port(word: &str) -> u16 {
    let after = word.split_once('@').map(|(_, after)| after);
    let port = after.and_then(|after| after.split(',').next());
    port.and_then(|port| port.parse().ok()).unwrap_or(0)
}

/// `ip:port@bus-port`, maybe followed by a comma and names.
fn address(word: &str) -> Result<Option<SocketAddr>, Malformed> {
    let address = word.split(['@', ',']).next().unwrap_or_default();
    parse_address(address)
}

/// `ip:port`, also of IPv6 without brackets; `None` where the ip is missing.
pub fn parse_address(text: &str) -> Result<Option<SocketAddr>, Malformed> {
    let (ip, port) = text.rsplit_once(':').ok_or(Malformed::Unexpected)?;
    let port = port.parse().map_err(|_| Malformed::Number)?;
    if ip.is_empty() {
        return Ok(None);
    }
    let ip: IpAddr = ip.parse().map_err(|_| Malformed::Unexpected)?;
    Ok(Some(SocketAddr::new(ip, port)))
}

/// `7` or `0-4095`.
fn slots_of(word: &str) -> Result<RangeInclusive<u16>, Malformed> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let number = |text: &str| text.parse::<u16>().map_err(|_| Malformed::Number);
    let (first, last) = (number(first)?, number(last)?);
    if first <= last && last < PARTITIONS { Ok(first..=last) } else { Err(Malformed::Length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "00ff10a0b0c0d0e0f00112233445566778899aab";

    #[test]
    fn a_table_of_nodes_is_read() {
        let text = format!(
            "{ID} 127.0.0.1:7001@17001,,shard-id=1 myself,master - 0 0 4 connected 0-5 9 [77->-{ID}] [78-<-{ID}]\n\
             {ID} ::1:7002@17002 master,fail? - 0 1 5 disconnected\n\
             {ID} :0@0 master,noaddr - 1 1 0 disconnected 7\n\
             {ID} :7003@17003 slave {ID} 1 1 0 connected\n"
        );
        let nodes = parse_view(text.as_bytes());
        assert_eq!(nodes.len(), 3);
        assert_eq!(nodes[0].address, Some("127.0.0.1:7001".parse().unwrap()));
        assert_eq!(nodes[0].slots, [0..=5, 9..=9]);
        let id = ID.parse().unwrap();
        assert_eq!(
            nodes[0].open,
            [
                OpenSlot { slot: 77, leaves: true, other: id },
                OpenSlot { slot: 78, leaves: false, other: id },
            ]
        );
        assert_eq!((nodes[0].bus_port, nodes[0].slot_count()), (17_001, 7));
        assert!(nodes[0].holds(3) && !nodes[0].holds(8));
        assert_eq!((nodes[0].epoch, nodes[0].is_myself, nodes[0].is_linked), (4, true, true));
        assert_eq!(nodes[1].address, Some("[::1]:7002".parse().unwrap()));
        assert_eq!((nodes[1].is_myself, nodes[1].is_linked), (false, false));
        assert_eq!((nodes[0].is_failing, nodes[1].is_failing), (false, true));
        assert_eq!(nodes[2].address, None);
        assert_eq!((nodes[0].replica_of, nodes[2].replica_of), (None, Some(id)));
    }

    /// An address is what a stranger's greeting says.
    #[test]
    fn a_line_that_is_none_spoils_no_other() {
        let good = format!("{ID} 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-16383\n");
        for odd in ["\u{7f}", "two words", "a\nb", "", "\n\n", "127.0.0.1:x", "1:2:3 master"] {
            let mut table = format!("{ID} {odd}:7@8 handshake - 0 0 0 disconnected\n{good}");
            assert_eq!(parse_view(table.as_bytes()).len(), 1, "{odd:?}");
            assert_eq!(rows(table.as_bytes()).len(), 2, "{odd:?}");
            table = format!("{good}{ID} {odd}:7@8 handshake - 0 0 0 disconnected\n");
            assert_eq!(parse_view(table.as_bytes()).len(), 1, "{odd:?}");
        }
        let mut table = format!("{ID} ").into_bytes();
        table.extend(b"\xff\xfe:7@8 handshake - 0 0 0 disconnected\n");
        table.extend(good.as_bytes());
        assert_eq!(parse_view(&table).len(), 1);
    }

    #[test]
    fn nonsense_is_left_out() {
        for slots in [
            "16384",
            "5-4",
            "0-99999",
            "x",
            "1-2-3",
            "[7->-x]",
            "[7]",
            "[16384->-00ff10a0b0c0d0e0f00112233445566778899aab]",
        ] {
            let text = format!("{ID} 127.0.0.1:1@2 master - 0 0 1 connected {slots}");
            assert_eq!(parse_view(text.as_bytes()), [], "{slots}");
        }
        for text in ["x", &format!("{ID} nowhere master - 0 0 1 connected"), &ID[1..]] {
            assert_eq!(parse_view(text.as_bytes()), [], "{text}");
        }
    }
}
