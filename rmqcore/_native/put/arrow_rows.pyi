from typing import final

COLUMNS: dict[str, str]
FORMATS: dict[str, str]

@final
class ArrowSchemaOwner: ...

@final
class ArrowArrayOwner: ...

@final
class ArrowStreamOwner: ...

@final
class ArrowScratch: ...

@final
class ArrowRows: ...
