package vendor

import _ "embed"

//go:embed tables/amd64
var embedded []byte
