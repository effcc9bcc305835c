package vendor

import _ "embed"

//go:embed tables/arm64
var embedded []byte
