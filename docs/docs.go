package docs

import _ "embed"

// OpenAPI describes the API, in OpenAPI 3.1. `make generate` writes it from the source.
//
//go:embed openapi.json
var OpenAPI []byte
