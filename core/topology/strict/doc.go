// Package strict reads JSON and YAML that people write: what the usual decoders
// would pass over in silence is an error here, in one line that says where and,
// for JSON, what to give instead.
//
// Not in here: what any value means.
package strict
