# shellcheck shell=bash
# One media file, decoded from its first to its last packet. The receipt
# probe.json exists only if neither container nor decoder found anything wrong.
# A format without checksums (H.264, AAC) can hide a small damage that happens
# to decode; the receipt's sha256 says which bytes were looked at.

: "${SLUICE_P_input:?}"

# "file:" and the whitelist: a name is never taken for an address, and a
# playlist fetches nothing.
probe_url=file:$SLUICE_P_input
probe_open=(-protocol_whitelist file -i "$probe_url")
# What decoders check beyond what they must, and stop at the first finding.
probe_strict=(-err_detect "crccheck+bitstream+buffer+explode")

# The first line of the tool's words that says something, without the folder's
# path and the addresses of objects in its memory.
probe_words() {
    local line text=''
    while IFS= read -r line; do
        if [[ $line =~ ^(\[[A-Za-z0-9_,]+)\ @\ 0x[0-9a-f]+(\].*)$ ]]; then
            line=${BASH_REMATCH[1]}${BASH_REMATCH[2]}
        fi
        line=${line//"$probe_url"/input}
        line=${line//"$SLUICE_P_input"/input}
        text=${line:0:300}
        [[ -z $text ]] || break
    done <"$1"
    printf '%s' "${text:-it ended without a word}"
}

# An MP4 or QuickTime file is a row of boxes, each with its length: do they
# fill the file exactly? (A decoder may be content with an index cut short.)
# Sets probe_boxes when it is such a file.
probe_row_of_boxes() {
    local offset=0 bytes length name i
    local -a head
    bytes=$(stat -L -c %s -- "$SLUICE_P_input")
    probe_boxes=0
    while ((offset < bytes)); do
        read -r -a head <<<"$(od -An -v -tu1 -w16 -j "$offset" -N 16 \
            -- "$SLUICE_P_input")"
        if ((${#head[@]} < 8)); then
            ((probe_boxes == 1)) || return 0
            length=8
            name=next
        else
            length=$((head[0] << 24 | head[1] << 16 | head[2] << 8 | head[3]))
            name=
            for ((i = 4; i < 8; i++)); do
                printf -v name '%s\\x%02x' "$name" "${head[i]}"
            done
            printf -v name '%b' "$name"
            if ((offset == 0)); then
                [[ $name =~ ^(ftyp|moov|mdat|wide|free|skip)$ ]] || return 0
                probe_boxes=1
            fi
            [[ $name =~ ^[A-Za-z0-9]{4}$ ]] || name=unnamed
        fi
        # 0: up to the end of the file; 1: eight bytes of length follow.
        if ((length == 0)); then
            return 0
        elif ((length == 1 && ${#head[@]} == 16)); then
            length=0
            for ((i = 8; i < 16; i++)); do
                length=$((length << 8 | head[i]))
            done
            # Over 2^62 it is no length of a file; it must not wrap around.
            ((head[8] < 64)) || length=-1
        fi
        ((length >= 8)) || sluice_fail media_damaged \
            "the file's structure is broken at byte $offset" \
            "文件结构在第 $offset 字节处损坏"
        ((length <= bytes - offset)) || sluice_fail media_truncated \
            "the file is incomplete: its part '$name' at byte $offset has $length bytes, only $((bytes - offset)) are there" \
            "文件不完整：位于第 $offset 字节的 '$name' 部分应有 $length 字节，实际只有 $((bytes - offset)) 字节"
        offset=$((offset + length))
    done
}

# How many packets of the stream $1 are missing of those that the container
# lists, as "missing listed"; nothing where it lists none.
probe_missing() {
    local text listed held
    text=$(ffprobe -v quiet -protocol_whitelist file -select_streams "$1" \
        -count_packets -show_entries stream=nb_frames,nb_read_packets \
        -of default=noprint_wrappers=1 -i "$probe_url") || true
    listed=$(probe_integer nb_frames "$text")
    held=$(probe_integer nb_read_packets "$text")
    [[ $listed != null && $held != null ]] || return 0
    ((held >= listed)) || printf '%s %s' "$((listed - held))" "$listed"
}

# Fails the job because of the words in the file $1.
probe_damaged() {
    local words stream missing listed
    cat -- "$1" >&2
    words=$(probe_words "$1")
    for stream in V:0 a:0; do
        missing=$(probe_missing "$stream")
        [[ -n $missing ]] || continue
        listed=${missing#* } missing=${missing% *}
        sluice_fail media_truncated \
            "the file is incomplete: of $listed packets that it lists for the stream $stream, $missing are missing" \
            "文件不完整：流 $stream 列出了 $listed 个数据包，缺少 $missing 个"
    done
    if grep -qiE 'partial file|ended prematurely|truncat|end of file' "$1" ||
        { [[ $probe_boxes == 1 ]] && grep -q 'moov atom not found' "$1"; }; then
        sluice_fail media_truncated \
            "the file is incomplete, its end is missing: $words" \
            "文件不完整，缺少结尾部分：$words"
    fi
    sluice_fail media_damaged \
        "the file can't be decoded without errors: $words" \
        "文件无法无错误地解码：$words"
}

# Prints what ffprobe says; any error of it is the file's.
probe_ask() {
    local words=$SLUICE_RUN_DIR/ffprobe.log
    if ! ffprobe -hide_banner -v error "${probe_strict[@]}" "$@" \
        "${probe_open[@]}" 2>"$words" || [[ -s $words ]]; then
        probe_damaged "$words"
    fi
}

probe_identity() {
    stat -L -c '%d %i %s %Y %Z' -- "$SLUICE_P_input"
}

probe_sha256() {
    local line
    line=$(sha256sum <"$SLUICE_P_input")
    printf '%s' "${line%% *}"
}

# Every stream, every packet; a word at the level of errors is one too many.
# One thread, for with more of them some findings of the decoder get lost.
probe_decode() {
    local words=$SLUICE_RUN_DIR/ffmpeg.log
    if ! ffmpeg -nostdin -hide_banner -v error -xerror \
        "${probe_strict[@]}" -threads 1 "${probe_open[@]}" \
        -map '0:V?' -map '0:a?' -f null - >/dev/null 2>"$words" ||
        [[ -s $words ]]; then
        probe_damaged "$words"
    fi
}

# The value of the key $1 in the lines $2, or nothing.
probe_value() {
    local line
    while IFS= read -r line; do
        if [[ $line == "$1="* ]]; then
            printf '%s' "${line#*=}"
            return
        fi
    done <<<"$2"
}

# The value of $1 in $2 as a JSON integer, or null.
probe_integer() {
    local value
    value=$(probe_value "$1" "$2")
    [[ $value =~ ^(0|[1-9][0-9]{0,17})$ ]] || value=null
    printf '%s' "$value"
}

# The same as a JSON string: codec names, and fractions such as 30000/1001.
probe_string() {
    local value
    value=$(probe_value "$1" "$2")
    if [[ -z $value || $value == N/A || $value == 0/0 ]]; then
        printf null
    else
        sluice_json_string "$value"
    fi
}

probe_video() {
    local text frames
    probe_video_json=null
    text=$(probe_ask -select_streams V:0 -count_frames -threads 1 \
        -show_entries stream=codec_name,width,height,avg_frame_rate,r_frame_rate,nb_read_frames \
        -of default=noprint_wrappers=1)
    [[ -n $text ]] || return 0
    frames=$(probe_integer nb_read_frames "$text")
    [[ $frames =~ ^[1-9] ]] || sluice_fail media_empty \
        "the video stream holds no frame" "视频流中没有任何帧"
    probe_frames=$frames
    probe_frame_rate=$(probe_string avg_frame_rate "$text")
    probe_video_json=$(
        printf '{"codec":%s,"width":%s,"height":%s,"base_frame_rate":%s}' \
            "$(probe_string codec_name "$text")" \
            "$(probe_integer width "$text")" \
            "$(probe_integer height "$text")" \
            "$(probe_string r_frame_rate "$text")"
    )
}

probe_audio() {
    local text samples
    probe_audio_json=null
    text=$(probe_ask -select_streams a:0 \
        -show_entries stream=codec_name,sample_rate,channels \
        -of default=noprint_wrappers=1)
    [[ -n $text ]] || return 0
    # One line a decoded frame. They are added up as text: what is not a whole
    # number counts as none.
    samples=$(
        probe_ask -select_streams a:0 -show_entries frame=nb_samples \
            -of csv=print_section=0 |
            awk -F, '$1 ~ /^[0-9]+$/ { sum += $1 } END { printf "%.0f", sum }'
    )
    [[ $samples =~ ^[1-9] ]] || sluice_fail media_empty \
        "the audio stream holds no sample" "音频流中没有任何采样"
    probe_audio_samples=$samples
    probe_audio_json=$(
        printf '{"codec":%s,"sample_rate":%s,"channels":%s}' \
            "$(probe_string codec_name "$text")" \
            "$(probe_integer sample_rate "$text")" \
            "$(probe_integer channels "$text")"
    )
}

# Seconds with six digits, as ffprobe prints them, and as whole microseconds.
probe_length() {
    local text
    probe_duration=null probe_duration_us=null
    probe_container=null
    text=$(probe_ask -show_entries format=duration,format_name \
        -of default=noprint_wrappers=1)
    probe_container=$(probe_string format_name "$text")
    text=$(probe_value duration "$text")
    if [[ $text =~ ^([0-9]{1,9})\.([0-9]{6})$ ]]; then
        probe_duration=\"$text\"
        text=${BASH_REMATCH[1]}${BASH_REMATCH[2]}
        text=${text#"${text%%[!0]*}"}
        probe_duration_us=${text:-0}
    fi
}

probe_tools() {
    local tool
    for tool in ffmpeg ffprobe; do
        command -v "$tool" >/dev/null || sluice_fail tool_missing \
            "$tool is not in the PATH of this node" \
            "该节点的 PATH 中没有 $tool" infra
    done
}

probe_main() {
    local before sha256 receipt
    probe_frames=null probe_frame_rate=null probe_audio_samples=null
    probe_tools
    [[ $SLUICE_P_input == /* && -f $SLUICE_P_input &&
        -r $SLUICE_P_input ]] || sluice_fail media_unreadable \
        "the input is not a file that this account can read on this node" \
        "输入不是该账户在该节点上可读取的文件"
    [[ -s $SLUICE_P_input ]] || sluice_fail media_empty \
        "the file is empty" "文件为空"
    before=$(probe_identity)
    sha256=$(probe_sha256)
    probe_row_of_boxes
    probe_length
    probe_decode
    probe_video
    probe_audio
    [[ $probe_video_json != null || $probe_audio_json != null ]] ||
        sluice_fail media_no_stream \
            "the file holds neither video nor audio" "文件中既没有视频也没有音频"
    [[ $(probe_identity) == "$before" && $(probe_sha256) == "$sha256" ]] ||
        sluice_fail media_changed \
            "the file was changed while it was read" "文件在读取期间被修改"

    receipt=$(
        printf '{"version":1,"job":%s,"sha256":"%s","bytes":%s,' \
            "$(sluice_json_string "$SLUICE_JOB_ID")" "$sha256" \
            "$(stat -L -c %s -- "$SLUICE_P_input")"
        printf '"container":%s,"duration":%s,"duration_us":%s,' \
            "$probe_container" "$probe_duration" "$probe_duration_us"
        printf '"frames":%s,"frame_rate":%s,"video":%s,' \
            "$probe_frames" "$probe_frame_rate" "$probe_video_json"
        printf '"audio_samples":%s,"audio":%s}' \
            "$probe_audio_samples" "$probe_audio_json"
    )
    printf '%s\n' "$receipt" | sluice_receipt probe.json
    echo "media-probe: $probe_frames frames, $probe_audio_samples audio samples"
}

probe_main
