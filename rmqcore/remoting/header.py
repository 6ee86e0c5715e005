"""From frame to command and back, for both formats of the header."""

from __future__ import annotations

from rmqcore.remoting.binary_header import decode_binary_header, encode_binary_header
from rmqcore.remoting.codes import SerializeType
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import MAX_FRAME_SIZE, Frame, encode_frame
from rmqcore.remoting.json_header import decode_json_header, encode_json_header


def decode_command(frame: Frame) -> RemotingCommand:
    """Decode the header of a frame.

    Raises
    ------
    ProtocolError
        The header cannot be decoded.
    """
    if frame.serialize_type is SerializeType.JSON:
        command = decode_json_header(frame.header)
    else:
        command = decode_binary_header(frame.header)
    command.body = frame.body
    return command


def encode_command(command: RemotingCommand, *, max_frame_size: int = MAX_FRAME_SIZE) -> bytes:
    """Write a command as a frame.

    Raises
    ------
    ValueError
        The command does not fit in a frame, or one of its numbers or texts does not fit in its header.
    """
    is_json = command.serialize_type is SerializeType.JSON
    header = encode_json_header(command) if is_json else encode_binary_header(command)
    frame = Frame(command.serialize_type, header, command.body)
    return encode_frame(frame, max_frame_size=max_frame_size)
