//! Families of metrics, a call each: their names, help and units go through `prometheus_client`, which knows
//! how they are written.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::latency::Histogram;

/// Names and values of labels.
pub type Labels = Vec<(&'static str, String)>;

/// Of a family, as OpenMetrics wants it: without its unit and what marks a counter.
#[derive(Clone, Copy)]
pub struct Named<'a> {
    pub name: &'a str,
    pub help: &'a str,
    pub unit: Option<&'a Unit>,
}

pub struct Families<'a>(pub DescriptorEncoder<'a>);

impl Families<'_> {
    pub fn gauges(
        &mut self,
        named: Named<'_>,
        rows: impl IntoIterator<Item = (Labels, f64)>,
    ) -> fmt::Result {
        let Named { name, help, unit } = named;
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        rows.into_iter()
            .try_for_each(|(labels, value)| family.encode_family(&labels)?.encode_gauge(&value))
    }

    /// Counts, and bytes.
    pub fn counters(
        &mut self,
        named: Named<'_>,
        rows: impl IntoIterator<Item = (Labels, u64)>,
    ) -> fmt::Result {
        let Named { name, help, unit } = named;
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Counter)?;
        rows.into_iter().try_for_each(|(labels, value)| {
            let mut row = family.encode_family(&labels)?;
            row.encode_counter::<NoLabelSet, _, u64>(&value, None)
        })
    }

    pub fn seconds(
        &mut self,
        named: Named<'_>,
        rows: impl IntoIterator<Item = (Labels, f64)>,
    ) -> fmt::Result {
        let Named { name, help, .. } = named;
        let unit = Some(&Unit::Seconds);
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Counter)?;
        rows.into_iter().try_for_each(|(labels, value)| {
            let mut row = family.encode_family(&labels)?;
            row.encode_counter::<NoLabelSet, _, f64>(&value, None)
        })
    }

    pub fn histogram(&mut self, named: Named<'_>, of: &Histogram) -> fmt::Result {
        let Named { name, help, unit } = named;
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Histogram)?;
        family.encode_histogram::<NoLabelSet>(of.sum, of.count, &of.buckets, None)
    }

    pub fn info(&mut self, named: Named<'_>, rows: &[Labels]) -> fmt::Result {
        let Named { name, help, .. } = named;
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Info)?;
        rows.iter().try_for_each(|labels| family.encode_info(labels))
    }
}
