# Nothing is declared: neither sizes nor times. Two rounds, the second of fewer and larger files.

JOB = config["job"]
FIRST = [f"{number:02}" for number in range(16)]
SECOND = [f"{number:02}" for number in range(10)]


rule all:
    input: "end"

rule first:
    output: temp("first/{name}")
    shell: "{JOB} --seconds 2 --mb 14 --write {output}"

rule between:
    input: expand("first/{name}", name=FIRST)
    output: "between"
    shell: "{JOB} --seconds 14 --mb 10 --read {input} --write {output}"

rule second:
    input: "between"
    output: temp("second/{name}")
    shell: "{JOB} --seconds 3 --mb 26 --read {input} --write {output}"

rule end:
    input: expand("second/{name}", name=SECOND)
    output: "end"
    shell: "{JOB} --seconds 10 --mb 8 --read {input} --write {output}"
