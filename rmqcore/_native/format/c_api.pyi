TABLE: object
