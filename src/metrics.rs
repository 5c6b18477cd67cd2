//! Every number a result can show: one table that help, schema, CSV headers and rules are made from.
